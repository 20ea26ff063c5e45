"""The command as a person uses it: what it prints, what it leaves, what it refuses."""

import json
import math
import tomllib

import numpy as np
import pytest

from hush.experiment import config, directory
from hush.experiment.resolving import build
from hush.privacy.ledger import Ledger

QUICK = [
    "--data",
    "digits",
    "--model",
    "linear",
    "--ratio",
    "0.2",
    "--rounds",
    "2",
    "--clients",
    "40",
    "--cohort",
    "10",
]
PRIVATE = ["run", "fl-top-dp", *QUICK, "--noise", "1"]


def rows(path):
    return [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]


def test_a_run_leaves_its_files_and_prints_the_last_row(hush, tmp_path):
    status, out, _ = hush(*PRIVATE, "--out", "r", "--json")
    last = json.loads(out)
    assert status == 0
    left = {p.name for p in (tmp_path / "r").iterdir()}
    assert {
        "config.toml",
        "rounds.jsonl",
        "privacy.json",
        "model.safetensors",
        "report.html",
        "checkpoint",
    } <= left
    assert last["path"] == "r"
    assert last["warnings"] == json.loads((tmp_path / "r" / "privacy.json").read_text())["card"]["warnings"]
    assert {k: v for k, v in last.items() if k not in ("path", "warnings")} == rows(tmp_path / "r")[-1]
    assert (last["round"], len(rows(tmp_path / "r"))) == (2, 2)
    assert set(last["epsilon"]) == {"model", "server", "server_median", "upload", "upload_median"}
    for way in ("up", "down"):
        for kind in ("payload", "protocol"):
            assert 0 < last["bytes"][way][kind]["mean"] <= last["bytes"][way][kind]["max"]


def test_the_table_and_the_page_are_for_people(hush, tmp_path):
    status, out, _ = hush("run", "fl-std", *QUICK, "--out", "r")
    assert status == 0
    assert "none" in out
    assert "r/report.html" in out
    assert "fl-std on digits" in (tmp_path / "r" / "report.html").read_text()


def test_config_is_resolved_and_runs_again_to_the_same_model(hush, tmp_path):
    hush("run", "fl-top-dp", *QUICK, "--epsilon", "4", "--delta", "1e-3", "--clip", "public", "--out", "one")
    resolved = tomllib.loads((tmp_path / "one" / "config.toml").read_text())
    assert resolved["scheme"]["noise"] > 0
    assert isinstance(resolved["scheme"]["clip"], float)
    assert resolved["scheme"]["epsilon"] == 4
    assert rows(tmp_path / "one")[-1]["epsilon"]["model"] <= 4
    status, _, _ = hush("run", "one/config.toml", "--out", "two")
    assert status == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert models[0] == models[1]


def test_a_finished_run_keeps_its_budget_and_a_conflict_is_told(hush, tmp_path):
    """With more rounds its noise would spend more: that is refused, before anything is written."""
    budget = ["--epsilon", "4", "--delta", "1e-3"]
    assert hush("run", "fl-top-dp", *QUICK, *budget, "--out", "one")[0] == 0
    scheme = tomllib.loads((tmp_path / "one" / "config.toml").read_text())["scheme"]
    status, out, err = hush("run", "one/config.toml", "--rounds", "400", "--out", "two")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"hush: noise={scheme['noise']:g} and epsilon=4 do not agree: over 400 rounds")
    assert not (tmp_path / "two").exists()
    needed = float(err.split("leave the noise out for ")[1].split(",")[0])
    assert needed > scheme["noise"]
    more = ["run", "one/config.toml", "--rounds", "3"]
    assert hush(*more, "--epsilon", "4", "--out", "two")[0] == 0  # a budget given anew settles the noise anew
    assert tomllib.loads((tmp_path / "two" / "config.toml").read_text())["scheme"]["noise"] > scheme["noise"]
    assert hush(*more, "--noise", str(scheme["noise"]), "--out", "three")[0] == 0  # and so does a noise
    assert "epsilon" not in tomllib.loads((tmp_path / "three" / "config.toml").read_text())["scheme"]
    both = ["run", "fl-top-dp", *QUICK, *budget, "--noise"]
    assert hush(*both, "50", "--out", "four")[0] == 0
    assert tomllib.loads((tmp_path / "four" / "config.toml").read_text())["scheme"]["noise"] == 50
    assert "do not agree" in hush(*both, "0.1", "--out", "five")[2]


def test_a_run_that_kept_its_noise_alone_is_resumed(hush, tmp_path):
    """As configurations were before they kept the budget."""
    words = ["run", "fl-top-dp", *QUICK, "--epsilon", "4", "--delta", "1e-3", "--out", "r"]
    assert hush(*words)[0] == 0
    stored = tmp_path / "r" / "config.toml"
    stored.write_text("".join(line for line in stored.read_text().splitlines(True) if not line.startswith("epsilon")))
    assert hush("run", "--resume", "--out", "r")[0] == 0
    assert hush(*words, "--resume")[0] == 0
    status, _, err = hush("run", *words[1:-2], "--epsilon", "5", "--resume", "--out", "r")
    assert (status, "[scheme] noise was" in err) == (2, True)


def test_an_unset_directory_is_chosen_anew_for_each_run(hush, tmp_path):
    hush("run", "fl-std", *QUICK)
    hush("run", "fl-std", *QUICK)
    assert {p.name for p in (tmp_path / "runs").iterdir()} == {"fl-std-digits", "fl-std-digits-2"}


def test_resume_of_a_finished_run_changes_nothing(hush, tmp_path):
    hush(*PRIVATE, "--out", "r")
    before = (tmp_path / "r" / "rounds.jsonl").read_bytes()
    status, _, _ = hush("run", "--resume", "--out", "r")
    assert status == 0
    assert (tmp_path / "r" / "rounds.jsonl").read_bytes() == before


def test_the_vote_has_its_own_event(hush, tmp_path):
    status, _, _ = hush(*PRIVATE, "--set", "scheme.select=vote", "--out", "r")
    events = json.loads((tmp_path / "r" / "privacy.json").read_text())["events"]
    assert status == 0
    assert [(e["round"], e["label"]) for e in events] == [(0, "vote"), (1, "update"), (2, "update")]


OWN = """
import torch
from torch import nn

def load():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(200, 6, generator=rng)
    y = (x[:, 0] > 0).long()
    return (x[:150], y[:150]), (x[150:], y[150:]), (x[:10], y[:10])

def network(shape, classes):
    return nn.Sequential(nn.Linear(shape.numel(), 8), nn.ReLU(), nn.Linear(8, classes))

def normed(shape, classes):
    return nn.Sequential(nn.Linear(shape.numel(), 8), nn.BatchNorm1d(8), nn.Linear(8, classes))

class Bad(nn.Linear):
    def forward(self, x):
        return super().forward(x) * float("nan")

def broken(shape, classes):
    return Bad(shape.numel(), classes)

def no_module(shape, classes):
    return 3
"""


def own(tmp_path, network="network", scheme="fl-top-dp", more=""):
    (tmp_path / "own.py").write_text(OWN)
    noise = "noise = 1.0\n" if scheme.endswith("-dp") else ""
    (tmp_path / "own.toml").write_text(
        f'[data]\nname = "own.py:load"\nclients = 15\n[model]\nname = "own.py:{network}"\n'
        f'[scheme]\nname = "{scheme}"\nratio = 0.5\n{noise}[sampling]\ncohort = 5\n[run]\nrounds = 3\n{more}'
    )
    return tmp_path / "own.toml"


BROKEN = {
    "syntax": (OWN + "\ndef (", "SyntaxError"),
    "import": ("import no_such_module\n" + OWN, "no_such_module"),
    "no rows": (OWN.replace("x[:150], y[:150]", "x[:0], y[:0]"), "rows"),
    "NaN": (OWN.replace("y = (x", "x[3] = float('nan'); y = (x"), "NaN"),
    "width": (OWN.replace("nn.Linear(shape.numel(), 8)", "nn.Linear(7, 8)"), "fit"),
    "arguments": (OWN.replace("def network(shape, classes)", "def network(shape)"), "TypeError"),
    "item": (
        OWN.replace("nn.ReLU()", "Item()")
        + "\nclass Item(nn.Module):\n    def forward(self, x):\n        return torch.from_numpy(x.numpy())\n",
        "fit",
    ),
    "targets": (
        OWN.replace(".long()", ".float()").replace("nn.Linear(8, classes)", "nn.Linear(8, 2)"),
        "give the model one output for each number",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_own_code_that_fails_is_one_sentence(hush, tmp_path, case):
    toml = own(tmp_path)
    code, part = BROKEN[case]
    (tmp_path / "own.py").write_text(code)
    status, _, err = hush("run", toml, "--out", "r")
    assert status == 2
    assert part in err
    assert err.splitlines()[-1].startswith("hush: ")
    assert not (tmp_path / "r").exists()


def test_own_data_and_network_from_a_file(hush, tmp_path):
    status, out, _ = hush("run", own(tmp_path), "--out", "r", "--json")
    assert status == 0
    assert json.loads(out)["round"] == 3


def test_batch_statistics_are_refused_under_dp_and_average_without(hush, tmp_path):
    status, _, err = hush("run", own(tmp_path, "normed"), "--out", "r")
    assert status == 2
    assert "GroupNorm" in err
    assert not (tmp_path / "r").exists()
    status, _, _ = hush("run", own(tmp_path, "normed", "fl-std"), "--out", "r")
    assert status == 0


@pytest.mark.parametrize("scheme", ["fl-std", "fl-top-dp"])
def test_a_model_that_yields_nan_is_refused_before_the_first_round(hush, tmp_path, scheme):
    status, _, err = hush("run", own(tmp_path, "broken", scheme), "--out", "r")
    assert status == 2
    assert err.startswith("hush: the loss is nan on train rows at the first weights, and so are outputs of the model: ")
    assert not (tmp_path / "r").exists()


def test_a_run_that_diverges_keeps_its_last_good_checkpoint(hush, tmp_path):
    toml = own(tmp_path, scheme="fl-std", more="[train]\nrate = 1e12\nsteps = 3\n")
    status, _, err = hush("run", toml, "--out", "r")
    assert status == 2
    assert "finite" in err or "NaN" in err
    done = len(rows(tmp_path / "r")) if (tmp_path / "r" / "rounds.jsonl").exists() else 0
    assert (tmp_path / "r" / "checkpoint" / "state.safetensors").exists() == (done > 0)


MISTAKES = {
    "unknown scheme": (["run", "fl-tip-dp"], "did you mean fl-top-dp"),
    "unknown data": (["run", "fl-top", "--data", "fashon-mnist"], "fashion-mnist"),
    "ratio 0": ([*PRIVATE, "--ratio", "0"], "ratio"),
    "ratio 1.5": ([*PRIVATE, "--ratio", "1.5"], "ratio"),
    "negative noise": (["run", "fl-top-dp", *QUICK, "--noise", "-1"], "noise"),
    "epsilon without delta": (["run", "fl-top-dp", *QUICK, "--epsilon", "1"], "--delta"),
    "delta 1": (["run", "fl-top-dp", *QUICK, "--epsilon", "1", "--delta", "1"], "delta"),
    "no privacy at all": (["run", "fl-top-dp", *QUICK], "--epsilon"),
    "noise without dp": (["run", "fl-top", *QUICK, "--noise", "1"], "fl-top-dp"),
    "vote without dp": (["run", "fl-top", *QUICK, "--set", "scheme.select=vote"], "fl-top-dp"),
    "cohort above the population": ([*PRIVATE, "--cohort", "41"], "population of 40"),
    "no such file": (["run", "absent.toml"], "absent.toml"),
    "no such option": ([*PRIVATE, "--rations", "2"], "rations"),
    "a word for a number": ([*PRIVATE, "--rounds", "many"], "rounds"),
    "no scheme": (["run"], "hush schemes"),
    "paper's clip elsewhere": ([*PRIVATE, "--clip", "paper"], "adaptive"),
    "a folder that is no run": ([*PRIVATE, "--out", "."], "another --out"),
    "resume of nothing": (["run", "--resume", "--out", "typo"], "holds no run"),
    "resume of nowhere": (["run", "fl-top", *QUICK, "--resume"], "--out"),
    "clip without dp": (["run", "fl-std", *QUICK, "--clip", "1"], "fl-std-dp"),
    "column without its partition": ([*PRIVATE, "--set", "data.column=site"], "partition='column'"),
    "alpha without its partition": ([*PRIVATE, "--set", "data.alpha=1"], "partition='dirichlet'"),
    "vote on a random set": (["run", "fl-bas-3-dp", *QUICK, "--noise", "1", "--set", "scheme.select=vote"], "no Top-K"),
    "floor above the cohort": ([*PRIVATE, "--sampling", "fixed", "--set", "sampling.floor=11"], "floor=11"),
    "floor too near": (
        ["run", "fl-top-dp", *QUICK, "--epsilon", "3", "--delta", "1e-5", "--set", "sampling.floor=9"],
        "floor=9",
    ),
    "noise of nothing": (["run", "fl-top-dp", *QUICK, "--noise", "1e-200"], "noise"),
    "a huge seed": ([*PRIVATE, "--seed", "18446744073709551616"], "seed"),
    "a place in a file": ([*PRIVATE, "--out", "something/r"], "another --out"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_and_status_2(hush, tmp_path, case):
    words, part = MISTAKES[case]
    (tmp_path / "something").touch()
    status, out, err = hush(*words)
    assert status == 2
    assert out == ""
    assert err.startswith("hush: ")
    assert part in err
    assert len(err.splitlines()) == 1
    assert {p.name for p in tmp_path.iterdir()} == {"something"}


def test_an_unknown_key_is_named(hush, tmp_path):
    (tmp_path / "a.toml").write_text("[run]\nroundz = 3\n")
    status, _, err = hush("run", "a.toml")
    assert (status, "run.roundz" in err) == (2, True)


def test_another_run_s_directory_is_refused(hush, tmp_path):
    hush(*PRIVATE, "--out", "r")
    before = (tmp_path / "r" / "rounds.jsonl").read_bytes()
    status, _, err = hush(*PRIVATE, "--out", "r")
    assert (status, "--resume" in err) == (2, True)
    status, _, err = hush("run", "--resume", "--out", "r", "--rounds", "500")  # which no noise is found for
    assert (status, "[run] rounds was" in err, "and is now 500" in err) == (2, True, True)
    status, _, err = hush(*PRIVATE, "--out", "r", "--seed", "1", "--resume")
    assert (status, "[run] seed was 0 and is now 1" in err) == (2, True)
    assert (tmp_path / "r" / "rounds.jsonl").read_bytes() == before


@pytest.mark.parametrize("finished", [0, 1])
def test_a_changed_model_is_refused_on_resume(hush, tmp_path, finished):
    """Even before the first checkpoint: the ledger knows what it was begun with."""
    toml = own(tmp_path)
    built = build(config.read(toml))
    directory.open_directory(tmp_path / "r", built.config, resume=False)
    going = directory.execute(built, tmp_path / "r")
    next(going)
    going.close()
    if not finished:
        (tmp_path / "r" / "checkpoint" / "state.safetensors").unlink()
        (tmp_path / "r" / "rounds.jsonl").unlink()
    (tmp_path / "own.py").write_text(OWN.replace("x[:, 0] > 0", "x[:, 1] > 0"))
    status, _, err = hush("run", toml, "--out", "r", "--resume")
    assert (status, "changed since the run began" in err) == (2, True)


def test_the_card_and_the_page_catch_up_after_a_kill_in_the_last_round(hush, tmp_path):
    hush(*PRIVATE, "--out", "r")
    ledger = Ledger.load(tmp_path / "r" / "privacy.json")
    ledger.write_card({**ledger.card, "rounds": 1, "adversaries": []})
    (tmp_path / "r" / "report.html").unlink()
    hush("run", "--resume", "--out", "r")
    card = Ledger.load(tmp_path / "r" / "privacy.json").card
    assert (card["rounds"], len(card["adversaries"])) == (2, 3)
    assert (tmp_path / "r" / "report.html").exists()


def test_a_public_file_is_found_again_on_resume(hush, tmp_path):
    x, y = np.random.default_rng(0).random((60, 5)), np.arange(60) % 3
    for name in ("own.npz", "open.npz"):
        np.savez(tmp_path / name, x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    words = [
        "fl-top-dp",
        "--data",
        "own.npz",
        "--set",
        "data.public=open.npz",
        "--noise",
        "1",
        "--ratio",
        ".1",
        "--rounds",
        "1",
    ]
    assert hush("run", *words, "--out", "r")[0] == 0
    assert hush("run", "--resume", "--out", "r")[0] == 0


@pytest.mark.parametrize("name", ["checkpoint/state.safetensors", "privacy.json", "rounds.jsonl"])
def test_a_corrupt_file_is_refused_on_resume(hush, tmp_path, name):
    hush(*PRIVATE, "--out", "r")
    path = tmp_path / "r" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))
    status, _, err = hush("run", "--resume", "--out", "r")
    assert status == 2
    assert path.name in err


def test_schemes_list_bits_and_guarantees(hush):
    status, out, _ = hush("schemes", "--json")
    table = {row["name"]: row for row in json.loads(out)}
    assert status == 0
    assert len(table) == 33
    papers = [f"fl-{name}" for name in ("std", "top", "top-bis", "basic", "bas-2", "bas-3", "bas-4", "cs")]
    papers += ["fl-standard", "fl-sign", *(f"{name}-dp" for name in (*papers, "fl-standard", "fl-sign"))]
    recommended = {"hush", "hush-tiny", "hush-once", "hush-trusted"}
    ours = {"two-bit-dp", "fl-head", "fl-head-dp", "qsgd", "top-k-ef", *recommended}
    assert set(table) == {*papers, "two-bit", "dp-fedavg", "centralized", "standalone", *ours}
    assert table["two-bit"]["uplink_bits_per_weight"] == table["two-bit-dp"]["uplink_bits_per_weight"] == 2
    assert table["qsgd"]["uplink_bits_per_weight"] == pytest.approx(4 + 32 / 512, abs=1e-3)
    assert table["fl-cs"]["downlink_bits_per_weight"] == table["top-k-ef"]["downlink_bits_per_weight"] == 32
    assert table["fl-sign-dp"]["uplink_bits_per_weight"] == 1
    assert table["centralized"]["uplink_bits_per_weight"] == 0
    assert table["fl-top-dp"]["uplink_bits_per_weight"] == pytest.approx(32 * 8316 / 1663370, abs=1e-4)
    assert table["fl-basic"]["downlink_bits_per_weight"] == 32
    assert table["hush"]["uplink_bits_per_weight"] == pytest.approx(32 * 9 * 121 / 1663370, abs=1e-4)  # a fifth
    private = {name for name in table if name.endswith("-dp")} | {"dp-fedavg", *recommended}
    assert {row["guarantee"] for name, row in table.items() if name not in private} == {"none"}
    assert {table[name]["guarantee"] for name in private} == {"client", "record"}
    assert table["fl-sign-dp"]["guarantee"] == table["fl-standard-dp"]["guarantee"] == "record"
    status, out, _ = hush("schemes", "fl-bas-1-dp", "--json")
    assert json.loads(out)["name"] == "fl-basic-dp"


def test_two_bit_states_no_guarantee_and_the_papers_figure(hush):
    """ln(p/(p-2)) is on the card, as the paper's own, with the reason why it is none."""
    assert hush("run", "two-bit", "--data", "digits", "--model", "linear", "--rounds", "1", "--out", "two")[0] == 0
    status, out, _ = hush("privacy", "card", "two", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["guarantee"] == "none"
    assert found["paper"]["epsilon"] == pytest.approx(math.log(32 / 30), abs=1e-4)
    assert "distinguished with certainty" in found["reason"]
    status, out, _ = hush("run", "two-bit", "--data", "digits", "--resume", "--out", "two", "--json")
    assert status == 2  # another model


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["two-bit", "--clients", "30"], "cohort=30 cannot fill the 31 places of two-bit with p=32"),
        (["two-bit", "--set", "scheme.precision=2"], "p=2 has one place"),
        (["two-bit", "--set", "scheme.bound=0"], "bound=0.0 must be positive"),
        (["two-bit-dp", "--bits", "3", "--noise", "1"], "bits=3 must be 1, 2, 4 or 8"),
        (["qsgd", "--bits", "1"], "bits=1 must be 2, 4 or 8"),
        (["qsgd", "--bits", "0"], "bits=0 must be 2, 4 or 8"),
        (["two-bit-dp", "--bits", "0", "--noise", "1"], "bits=0 must be 1, 2, 4 or 8"),
        (["two-bit-dp", "--noise", "0.02"], "would cut the count of AdaptiveClip"),
        (
            ["two-bit-dp", "--epsilon", "3", "--delta", "1e-13", "--clients", "1000"],
            "take a larger delta, fewer rounds",
        ),
        (["fl-std", "--bits", "2"], "fl-std has no bits to set"),
        (["fl-std", "--set", "scheme.precision=8"], "fl-std has no precision to set"),
        (["fl-cs", "--set", "scheme.chunks=10000000"], "chunks=10000000 is more than"),
        (["standalone", "--cohort", "5"], "standalone draws nobody"),
    ],
)
def test_few_bits_that_cannot_be(options: list[str], sentence: str, hush, tmp_path):
    status, out, err = hush("run", *options, "--data", "digits", "--rounds", "1", "--out", "no")
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("name", ["standalone", "top-k-ef", "fl-cs"])
def test_what_clients_and_server_keep_is_resumed(name: str, hush, tmp_path):
    """Two runs of four rounds, one of which is stopped half-way: the same accuracies, bytes and files."""
    tables = {"data": {"name": "digits", "clients": 12}, "scheme": {"name": name}, "run": {"rounds": 4, "seed": 3}}
    if name != "standalone":
        tables |= {"scheme": {"name": name, "ratio": 0.05}, "sampling": {"cohort": 6}}
    whole, half = tmp_path / "whole", tmp_path / "half"
    for folder, count in ((whole, 4), (half, 2)):
        built = build(config.parse(tables, "test"))
        directory.open_directory(folder, built.config, resume=False)
        run = directory.execute(built, folder)
        found = [row["round"] for row, _ in zip(run, range(count), strict=False)]
        assert found == list(range(1, count + 1))
        run.close()
    assert hush("run", "--resume", "--out", whole)[0] == 0
    assert hush("run", "--resume", "--out", half)[0] == 0
    for one, other in zip(rows(whole), rows(half), strict=True):
        assert one | {"seconds": 0} == other | {"seconds": 0}
    files = [folder / "model.safetensors" for folder in (whole, half)]
    if name == "standalone":  # each client has its own
        assert not any(file.exists() for file in files)
    else:
        assert files[0].read_bytes() == files[1].read_bytes()
