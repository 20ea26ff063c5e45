"""hush audit and hush run --audit: attacks beside what is proven, on the card, the page and in the log."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from hush.cli import bars, main
from hush.experiment import audits, directory
from hush.experiment.resolving import build

DIGITS = ["--data", "digits", "--model", "mlp", "--clients", "200", "--cohort", "100", "--set", "run.workers=1"]
RUNS = {
    "client": ["fl-top-dp", *DIGITS, "--rounds", "6", "--noise", "2", "--clip", "0.1", "--set", "run.canaries=100"],
    "record": ["fl-standard-dp", *DIGITS, "--rounds", "2", "--noise", "2", "--set", "run.canaries=60"],
    "open": ["fl-std", *DIGITS, "--rounds", "2", "--set", "train.steps=1"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, words in RUNS.items():
            patch.setattr(sys, "argv", ["hush", "run", *words, "--out", name])
            with pytest.raises(SystemExit, match="0"):
                main()
    return folder


@pytest.mark.parametrize(("name", "attack"), [("client", "canary clients"), ("record", "canary records")])
def test_a_run_with_canaries_says_what_they_show(hush, runs, name, attack):
    found = audits.read(runs / name)
    assert found[0].attack == attack
    assert {one.attack for one in found} >= {
        attack,
        f"{attack}, normal fit",
        "trial, distinguisher",
        "trial, normal fit",
    }
    assert not any(one.alarm for one in found)
    rows = directory.rows(runs / name)
    assert [row["audit"] is None for row in rows] == [True] * (len(rows) - 1) + [False]
    assert rows[-1]["audit"]["canaries"] == (100 if name == "client" else 60)
    assert found[0].stated == rows[-1]["epsilon"]["model"]
    status, out, err = hush("privacy", "card", runs / name)
    assert status == 0, err
    assert attack in out
    assert "canaries of the audit" in out
    assert attack in (runs / name / "report.html").read_text()


def test_a_killed_run_with_canaries_goes_on_to_the_same(runs, tmp_path, monkeypatch, capsys):
    """Stopped after its fourth round, with more rows of canaries than its checkpoint knows."""
    path = tmp_path / "again"
    from hush.experiment import config

    wanted = config.read(runs / "client" / "config.toml")
    experiment = build(wanted)
    directory.open_directory(path, experiment.config, resume=False)
    going = directory.execute(experiment, path)
    for _ in range(4):
        next(going)
    going.close()
    with (path / "canaries.bin").open("ab") as file:
        file.write(b"x" * 1234)
    list(directory.execute(build(wanted), path))
    for name in ("canaries.bin", "audit.json", "model.safetensors"):
        assert (path / name).read_bytes() == (runs / "client" / name).read_bytes(), name
    (path / "audit.json").unlink()  # killed before it was written
    list(directory.execute(build(wanted), path))
    assert (path / "audit.json").read_bytes() == (runs / "client" / "audit.json").read_bytes()


def test_rows_of_canaries_that_are_missing_are_refused(runs, tmp_path):
    from hush.errors import Mistake
    from hush.experiment import config

    path = shutil.copytree(runs / "client", tmp_path / "cut")
    whole = (path / "canaries.bin").read_bytes()
    (path / "canaries.bin").write_bytes(whole[:-8])
    with pytest.raises(Mistake, match="lacks rounds"):
        list(directory.execute(build(config.read(path / "config.toml")), path))


def test_audit_of_a_run_later(hush, runs):
    status, out, err = hush("audit", runs / "open", "--trials", "1900")
    assert status == 0, err
    assert "distinguisher" in out
    found = audits.read(runs / "open")
    assert all(one.stated is None and one.shown > 4 for one in found)
    status, out, err = hush("audit", runs / "open", "--trials", "2000", "--canaries", "60", "--json")
    assert status == 0, err
    rows = json.loads(out)["findings"]
    assert rows[0]["attack"] == "canary clients, one more training"
    assert rows[0]["words"].startswith("in one more training, of the ")
    assert rows[0]["stated"] == "none"
    assert rows[0]["shown"] > 0.3  # a quarter of them is never drawn in two rounds
    assert "canary clients" in hush("privacy", "card", runs / "open")[1]
    status, out, err = hush("audit", runs / "open", "--trials", "400")
    assert (status, out) == (2, "")
    assert err.endswith("open was audited by 2,000 trials, and fewer show less: take --trials 2000 or more\n")
    before = (runs / "open" / "audit.json").read_bytes()
    status, out, err = hush("audit", runs / "open", "--trials", "3000", "--canaries", "201")
    assert (status, out) == (2, "")
    assert "canaries=201 of 200 clients" in err
    assert (runs / "open" / "audit.json").read_bytes() == before
    status, out, err = hush("audit", runs / "client", "--canaries", "40")
    assert (status, out) == (2, "")
    assert err.endswith("was trained with canaries, and its card says what they show: leave --canaries out\n")


def test_a_run_that_is_not_finished_is_not_audited(hush, runs, tmp_path):
    place = shutil.copytree(runs / "client", tmp_path / "cut")
    with directory.locked(place):
        status, out, err = hush("audit", place)
        assert (status, out) == (2, "")
        assert f"{place} is in use by another process: wait for it" in err
    rows = (place / "rounds.jsonl").read_text().splitlines()
    (place / "rounds.jsonl").write_text("\n".join(rows[:4]) + "\n")
    before = (place / "audit.json").read_bytes()
    for words in (["audit"], ["audit", "inversion"]):
        status, out, err = hush(*words, place)
        assert (status, out) == (2, "")
        assert f"{place} has 4 of 6 rounds: let it finish, or go on with hush run --resume --out {place}" in err
    shutil.copy(runs / "client" / "rounds.jsonl", place)
    (place / "privacy.json").unlink()
    status, out, err = hush("audit", place)
    assert (status, out) == (2, "")
    assert "has no card" in err
    assert (place / "audit.json").read_bytes() == before


def test_a_run_ends_with_the_status_of_an_alarm(hush):
    from hush.parts.stages import Noise

    def halved(self, x, ctx):
        return ctx.draws.add_normals(x, ctx.spec.l2 * self.multiplier / 2 / ctx.plan.floor**0.5, "n", ctx.plan.round)

    words = [*DIGITS, "--rounds", "1", "--noise", "1", "--clip", "0.1", "--audit", "--out", "loud"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "encode", halved)
        status, _, err = hush("run", "fl-std-dp", *words)
        assert status == 1
        assert "warning: the attack 'trial, noise' shows epsilon" in err
        assert hush("run", "fl-std-dp", *words, "--resume", "--json")[0] == 1
    status, _, err = hush("audit", "loud", "--trials", "2000")  # what was found stays
    assert status == 1
    assert "alarm: trial, noise, model view" in err


OWN = """
from dataclasses import replace

import hush
from hush.catalogue.entries import entry

class Half(hush.Noise):
    def encode(self, x, ctx):
        return hush.Noise(self.multiplier / 2).encode(x, ctx)

def half(settings):
    made = entry("fl-std-dp").scheme(settings)
    return replace(made, stages=tuple(Half(x.multiplier) if isinstance(x, hush.Noise) else x for x in made.stages))
"""


def test_a_scheme_of_ones_own_is_audited_as_the_run_had_it(hush):
    """A file that was corrected since is another scheme: its audit would clear a run that had little noise."""
    Path("own.py").write_text(OWN)
    words = [*DIGITS, "--rounds", "1", "--noise", "1", "--clip", "0.1"]
    assert hush("run", "own.py:half", *words, "--out", "o")[0] == 0
    status, _, err = hush("audit", "o", "--trials", "1000", "--json")
    assert status == 1, err
    before = Path("o", "audit.json").read_bytes()
    Path("own.py").write_text(OWN.replace("self.multiplier / 2", "self.multiplier"))
    status, out, err = hush("audit", "o", "--trials", "1000")
    assert (status, out) == (2, "")
    assert "changed since the run" in err
    assert Path("o", "audit.json").read_bytes() == before


def test_a_python_program_hears_of_an_alarm(hush):
    import hush as library

    Path("own.py").write_text(OWN)
    given = {"clients": 200, "cohort": 100, "model": "mlp", "rounds": 1, "noise": 1.0, "clip": 0.1, "canaries": 20}
    run = library.fit("digits", "own.py:half", out="fit", workers=1, **given)
    assert any("the attack 'trial, noise' shows" in sentence for sentence in run.card["warnings"])
    assert "no audit was run" not in run.statement


def test_a_number_of_canaries_that_is_given_counts_before_the_run_s(hush):
    """0 is as many as is usual, whoever says so."""
    words = [*DIGITS, "--rounds", "1", "--set", "train.steps=1"]
    assert hush("run", "fl-std", *words, "--set", "run.canaries=40", "--out", "a")[0] == 0
    status, _, err = hush("run", "--resume", "--out", "a", "--set", "run.canaries=0")
    assert status == 2
    assert "canaries was 40 and is now 0" in err
    shutil.copy(Path("a", "config.toml"), "c.toml")
    assert hush("run", "c.toml", "--set", "run.canaries=0", "--out", "b")[0] == 0
    assert "canaries = 20" in Path("b", "config.toml").read_text()


def test_trials_that_were_made_are_not_said_to_be_made_again(hush, runs, tmp_path):
    place = tmp_path / "client"
    shutil.copytree(runs / "client", place)
    status, _, err = hush("run", "--resume", "--out", place)
    assert status == 0, err
    assert "auditing" not in err


def test_a_directory_that_cannot_be_written_is_told(hush, runs, tmp_path, monkeypatch):
    place = tmp_path / "open"
    shutil.copytree(runs / "open", place)
    (place / ".lock").unlink()
    (place / ".lock").mkdir()
    status, out, err = hush("audit", place, "--trials", "100")
    assert (status, out) == (2, "")
    assert "cannot be written" in err
    (place / ".lock").rmdir()

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(audits.files, "write", refuse)
    status, out, err = hush("audit", place, "--trials", "4000")
    assert (status, out) == (2, "")
    assert "cannot be written (Operation not permitted)" in err


def test_audit_of_a_scheme(hush):
    status, out, err = hush("audit", "mechanism", "hush", "--noise", "2", "--trials", "1000", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["alarms"] == []
    assert {one["view"] for one in found["findings"]} == {"model", "server", "upload"}


def test_what_is_printed_has_its_meaning(hush, runs):
    status, out, err = hush("audit", "mechanism", "fl-top-dp", "--trials", "400")
    assert (status, err) == (0, "")
    assert "99.88 %" in out
    words = " ".join(out.split())
    assert "400 trials with one client (or record), as many without it" in words
    assert "the odds of a guess about one client (or record) may grow e^epsilon times" in words
    assert "No alarm: no attack shows more than is proven." in words
    status, out, err = hush("audit", "mechanism", "fl-sign", "--trials", "400")
    assert (status, err) == (0, "")
    assert "Nothing is proven of this scheme" in " ".join(out.split())
    status, out, err = hush("audit", runs / "record", "--trials", "2000")
    assert (status, err) == (0, "")
    assert f"hush privacy card {runs / 'record'} shows this" in out


def test_a_log_hears_how_far_attacks_are(hush, runs, monkeypatch):
    """A line now and then, on standard error, with --json as well."""
    monkeypatch.setattr(bars, "SOON", -1.0)
    monkeypatch.setattr(bars, "QUIET", -1.0)
    _, out, err = hush("audit", "mechanism", "fl-top-dp", "--trials", "1500", "--json")
    assert out.count("\n") == 1
    assert err.splitlines() == [f"trials: {n:,} of 4,500" for n in (1024, 1500, 2524, 3000, 4024, 4500)]
    _, _, err = hush("audit", "property", runs / "open", "--label", "3", "--repetitions", "2")
    assert err.splitlines()[-2:] == ["repetitions: 1 of 2", "repetitions: 2 of 2"]
    _, _, err = hush("audit", "membership", runs / "open", "--shadows", "6")
    assert err.splitlines()[-12:] == [f"rounds of 6 models: {n} of 12" for n in range(1, 13)]


def test_many_canaries_are_told_before_anything_is_trained(hush):
    words = ["--data", "digits", "--model", "mlp", "--clients", "130", "--cohort", "40", "--rounds", "1", "--audit"]
    words += ["--set", "run.workers=1"]
    status, out, err = hush("run", "two-bit", *words, "--set", "run.canaries=65", "--out", "few")
    assert status == 0, err
    assert "warning: 65 of 130 clients are canaries of the audit, and the model learns nothing of them: take" in err
    assert err.index("65 of 130") < err.index("1/1")
    assert "audit: trial, distinguisher: shows epsilon 3.7" in out
    assert "no epsilon is promised" in out
    out = " ".join(hush("privacy", "card", "few")[1].split())  # which promises nothing, and has no assumptions
    assert "Canaries 65 of the 130 clients are canaries of the audit" in out


def test_where_clients_are_too_few_for_canaries_the_code_is_tried_alone(hush):
    words = ["--data", "digits", "--model", "mlp", "--clients", "130", "--cohort", "40", "--rounds", "1", "--audit"]
    status, out, err = hush("run", "two-bit", *words, "--set", "run.workers=1", "--out", "few")
    assert status == 0, err
    assert "too few clients (or records) for canaries: the code is tried alone" in err
    assert {one.attack for one in audits.read(Path("few"))} == {"trial, distinguisher"}
    assert "audit: trial, distinguisher: shows epsilon 3.7" in out
    assert hush("run", "--resume", "--out", "few")[0] == 0


def test_audit_leaves_the_number_of_canaries_that_a_run_has(hush):
    words = ["two-bit", "--data", "digits", "--model", "mlp", "--clients", "300", "--cohort", "40", "--rounds", "1"]
    words += ["--set", "run.workers=1"]
    assert hush("run", *words, "--set", "run.canaries=40", "--audit", "--out", "a")[0] == 0
    for resumed in ([], words):
        status, _, err = hush("run", *resumed, "--resume", "--out", "a", "--audit")
        assert status == 0, err
    shutil.copy(Path("a", "config.toml"), "b.toml")
    assert hush("run", "b.toml", "--audit", "--out", "b")[0] == 0
    assert "canaries = 40" in Path("b", "config.toml").read_text()


def test_rows_behind_features_are_not_attacked(hush):
    words = ["--data", "digits", "--clients", "60", "--noise", "1", "--delta", "1e-3", "--rounds", "7"]
    assert hush("run", "hush", *words, "--features", "20", "--out", "a")[0] == 0
    status, out, err = hush("audit", "inversion", "a")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == (
        "hush: this run trains on public features of the rows, and no attack here goes back from features to rows:"
        " attack a run of a network on the same data, say of fl-top-dp, or take hush audit property or membership"
    )


def test_attacks_on_the_data(hush, runs):
    status, out, err = hush("audit", "inversion", runs / "open", "--json")
    assert status == 0, err
    assert json.loads(out)["gained"] > 10
    assert 'id="inversion"' in (runs / "open" / "report.html").read_text()
    assert hush("privacy", "card", runs / "open")[0] == 0  # the page is still the run's
    status, out, err = hush("audit", "property", runs / "open", "--label", "3", "--repetitions", "1", "--json")
    assert status == 0, err
    assert json.loads(out)["auc"][0] > 0.8
    status, out, err = hush("audit", "membership", runs / "open", "--shadows", "6", "--json")
    assert status == 0, err
    assert 0.4 < json.loads(out)["auc"] <= 1


def test_an_alarm_has_a_status_of_its_own(hush, monkeypatch):
    from hush.parts.stages import Noise

    def halved(self, x, ctx):
        return ctx.draws.add_normals(x, ctx.spec.l2 * self.multiplier / 2 / ctx.plan.floor**0.5, "n", ctx.plan.round)

    monkeypatch.setattr(Noise, "encode", halved)
    status, _out, err = hush("audit", "mechanism", "fl-top-dp", "--trials", "1000")
    assert status == 1
    assert "alarm: noise, model view" in err


@pytest.mark.parametrize("name", ["two-bit", "fl-sign", "fl-cs", "top-k-ef", "qsgd", "fl-basic", "two-bit-dp"])
def test_canaries_of_other_schemes(hush, name):
    own = {"fl-cs": ["--ratio", "0.5", "--set", "scheme.chunks=4"], "two-bit-dp": ["--noise", "2", "--clip", "1"]}
    words = [*DIGITS, "--rounds", "2", *own.get(name, []), "--audit", "--out", "out"]
    status, _, err = hush("run", name, *words)
    assert status == 0, err
    assert audits.read(Path("out"))[0].attack == "canary clients"


def test_rounds_that_nobody_took_part_in_count_nothing(hush, tmp_path):
    """A cohort below the floor: canaries.bin has a row of zeros for it, and the run goes on and can be resumed."""
    words = ["--data", "digits", "--model", "linear", "--clients", "100", "--cohort", "30", "--noise", "1"]
    words += ["--set", "sampling.floor=30", "--rounds", "4", "--set", "run.canaries=50", "--out", "low"]
    assert hush("run", "fl-std-dp", *words)[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "low" / "rounds.jsonl").read_text().splitlines()]
    seen = np.frombuffer((tmp_path / "low" / "canaries.bin").read_bytes()).reshape(4, -1)
    assert [row["aborted"] for row in rows] == [not line.any() for line in seen]
    assert any(row["aborted"] for row in rows)
    assert hush("run", "--resume", "--out", "low")[0] == 0


def test_what_an_attack_left_is_not_another_run_s(hush, runs, tmp_path):
    place = tmp_path / "left"
    place.mkdir()
    shutil.copy(runs / "client" / "config.toml", place)
    shutil.copy(runs / "client" / "audit.json", place)
    assert hush("run", *RUNS["open"], "--out", place)[0] == 0
    assert not (place / "audit.json").exists()


def test_an_audit_in_between_does_not_keep_canaries_from_being_counted(hush, runs, tmp_path):
    place = shutil.copytree(runs / "client", tmp_path / "twice")
    (place / "audit.json").unlink()
    assert hush("audit", place, "--trials", "400")[0] == 0
    assert hush("run", "--resume", "--out", place)[0] == 0
    assert any(one.attack == "canary clients" for one in audits.read(place))


def test_canaries_need_a_directory():
    import hush

    with pytest.raises(hush.Mistake, match="give out"):
        hush.fit("digits", "fl-std-dp", noise=1.0, clients=60, rounds=1, canaries=20)


def test_mistakes(hush, runs, tmp_path):
    assert "leave these options out" in hush("audit", "mechanism", runs / "open", "--noise", "2")[2]
    assert hush("audit", "nowhere")[0] == 2
    status, _, err = hush("run", "standalone", *DIGITS[:4], "--audit")
    assert status == 2
    assert "sends nothing" in err
    status, _, err = hush("audit", "mechanism", "no-such")
    assert status == 2
    assert "not known" in err


def test_where_turns_are_public_a_canary_is_seen_in_its_own_alone(hush):
    words = ["--data", "digits", "--clients", "400", "--features", "20", "--noise", "1", "--clip", "0.5"]
    status, _, err = hush("run", "hush-once", *words, "--rounds", "5", "--set", "run.canaries=60", "--out", "turns")
    assert status == 0, err
    seen = np.frombuffer(Path("turns", "canaries.bin").read_bytes()).reshape(5, 60)
    assert (np.count_nonzero(seen, axis=0) == 1).all()
