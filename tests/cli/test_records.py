"""hush run on hospital records: what a run says of records, what it refuses, and repetitions."""

import json
from pathlib import Path

import pytest

SCHEMA = str(Path(__file__).parents[2] / "examples" / "hospital" / "schema.toml")
DP = [
    "run",
    "fl-sign-dp",
    "--data",
    SCHEMA,
    "--noise",
    "2",
    "--delta",
    "1e-3",
    "--set",
    "train.batch=20",
    "--rounds",
    "2",
]


def test_a_run_says_what_it_protects(hush):
    status, out, _ = hush(*DP, "--out", "run")
    assert status == 0
    assert "balanced accuracy, last" in out
    assert "AUROC, best" in out
    page = Path("run/report.html").read_text()
    assert "any one record of a client" in page
    assert "any one client" not in page
    assert "not who took part" not in page + out
    status, out, _ = hush("privacy", "card", "run")
    assert "differential privacy, record level" in out
    assert "2 clipped gradients change with it" in out
    assert "fitted on the records" in out
    last = json.loads(Path("run/rounds.jsonl").read_text().splitlines()[-1])
    assert last["level"] == "record"
    assert 0 <= last["auroc"] <= 1
    config = Path("run/config.toml").read_text()
    for line in ('balance = "downsample"', 'partition = "column"', "steps = 1", 'batches = "poisson"'):
        assert line in config


def test_a_divisor_that_no_noise_covers_is_on_the_card(hush):
    size = "the size of each batch after balancing, by which its noisy sum is divided"
    assert hush(*DP, "--set", "train.divisor=drawn", "--out", "run")[0] == 0
    assert 'divisor = "drawn"' in Path("run/config.toml").read_text()
    card = json.loads(hush("privacy", "card", "run", "--json")[1])
    assert size in card["unnoised"]
    assert [size in sentence for sentence in card["assumptions"]].count(True) == 1
    assert not any("the divisors are public" in sentence for sentence in card["assumptions"])
    assert (
        hush(
            *DP,
            "--set",
            "train.divisor=drawn",
            "--set",
            "train.batches=fixed",
            "--set",
            "train.balance=none",
            "--out",
            "same",
        )[0]
        == 0
    )
    assert "by which its noisy sum" not in hush("privacy", "card", "same")[1]  # as large each time
    status, out, err = hush("run", "fl-standard", "--data", SCHEMA, "--set", "train.divisor=drawn", "--out", "none")
    assert (status, out) == (2, "")
    assert "divisor belongs to schemes that protect records: leave it out" in err


def test_epsilon_gives_the_noise_that_keeps_to_it(hush):
    wanted = [word if word != "2" else "8" for word in DP[:4]] + ["--epsilon", "8", *DP[6:]]
    status, out, _ = hush(*wanted, "--out", "run", "--json")
    assert status == 0
    assert 0 < json.loads(out)["epsilon"]["model"] <= 8


def test_the_share_is_kept_as_it_was_given(hush):
    """A resumed run weighs as before; one that took the share from the rows says so again."""
    assert (
        hush("run", "fl-standard", "--data", SCHEMA, "--set", "train.share=0.3", "--rounds", "2", "--out", "given")[0]
        == 0
    )
    assert "share = 0.3" in Path("given/config.toml").read_text()
    assert hush(*DP, "--out", "found")[0] == 0
    assert "share" not in Path("found/config.toml").read_text()
    assert hush("run", "--resume", "--out", "found")[0] == 0
    assert "the share of the rarer class" in hush("privacy", "card", "found")[1]


def test_repetitions(hush):
    plain = ["run", "fl-standard", "--data", SCHEMA, "--rounds", "2"]
    status, out, _ = hush(*plain, "--repeat", "2", "--seed", "5", "--out", "many", "--json")
    assert status == 0
    found = json.loads(out)
    values = [run["auroc"] for run in found["runs"]]
    assert found["auroc"]["last"] == {"worst": min(values), "best": max(values)}
    assert sorted(path.name for path in Path("many").iterdir()) == ["seed-5", "seed-6"]
    status, out, _ = hush("compare", "many", "--json")
    assert status == 0
    assert [run["name"] for run in json.loads(out)["runs"]] == ["many/seed-5", "many/seed-6"]
    assert hush("run", *plain[1:], "--repeat", "2", "--seed", "5", "--out", "many", "--resume", "--json")[0] == 0


def test_a_vote_on_sparse_rows(hush):
    vote = ["--ratio", "0.1", "--set", "scheme.select=vote", "--cohort", "3", "--rounds", "2", "--out", "vote"]
    status, _, err = hush("run", "fl-top-dp", "--data", SCHEMA, "--noise", "1", *vote)
    assert status == 0, err


MODEL = """
from torch import nn


def network(shape, outputs):
    norm = nn.BatchNorm1d(4, track_running_stats=False)
    return nn.Sequential(nn.Linear(shape.numel(), 4), norm, nn.Linear(4, outputs))
"""


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model", "own.py:network"], "replace it by GroupNorm"),
        (["--set", "train.balance=none", "--set", "train.share=0.2"], "share=0.2 is for a balance"),
        (["--clip", "adaptive"], "fixed bound"),
        (["--set", "train.epochs=2"], "give steps, not epochs"),
        (["--set", "train.batch=all"], "give batch as a number"),
        (["--clip", "public", "--set", f"data.public={SCHEMA}"], "fixed bound"),
        (["--set", "run.device=cuda"], "runs on the CPU"),
    ],
)
def test_refused_before_anything_is_written(options, sentence, hush):
    Path("own.py").write_text(MODEL)
    status, out, err = hush(*DP, *options, "--out", "run")
    assert (status, out) == (2, "")
    assert sentence in err
    assert not Path("run").exists()


def test_the_clients_own_data_are_not_public(hush):
    options = ["--noise", "1", "--ratio", "0.1", "--cohort", "3", "--rounds", "2", "--set", f"data.public={SCHEMA}"]
    status, _, err = hush("run", "fl-top-dp", "--data", SCHEMA, *options, "--out", "run")
    assert status == 2
    assert "clients' own data" in err


def test_centralized_has_no_cohorts(hush):
    status, _, err = hush("run", "centralized", "--data", SCHEMA, "--sampling", "poisson", "--rounds", "2")
    assert status == 2
    assert "all data in one place" in err
    status, out, _ = hush("run", "centralized", "--data", SCHEMA, "--rounds", "2", "--out", "run", "--json")
    assert status == 0
    assert json.loads(out)["bytes"]["up"]["payload"]["max"] == 0
