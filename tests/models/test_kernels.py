"""What computes has a name, and a run that goes on with other kernels says so, or does not go on."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

from hush.cli import main
from hush.errors import Mistake
from hush.experiment import checkpoint, config, directory, journal
from hush.experiment.resolving import build
from hush.models.kernels import kernels
from hush.privacy.ledger import Ledger

# Other kernels than these, whatever these are: MKL's are named where they are limited.
LIMIT = "AUTO" if os.environ.get("MKL_CBWR") == "COMPATIBLE" else "COMPATIBLE"
NAMED = {**os.environ, "MKL_CBWR": LIMIT, "OMP_NUM_THREADS": "1"}
OTHER = {**NAMED, "ATEN_CPU_CAPABILITY": "default"}
MAIN = "from hush.cli import main; main()"
# Dies in its first round, after the event is on disk.
DIES = (
    f"import os; from hush.federation.simulated import Simulation; Simulation.collect = lambda *_: os._exit(9); {MAIN}"
)
PRIVATE = {"name": "fl-std-dp", "noise": 1.0, "clip": 0.1, "accountant": "rdp"}


@pytest.fixture
def renamed(monkeypatch, capsys):
    """Resumes a run with kernels of another name, in the tests' own process: (status, standard error)."""

    def call(out, *words):
        with monkeypatch.context() as patch:
            patch.setenv("MKL_CBWR", LIMIT)
            patch.setattr(sys, "argv", ["hush", "run", "--resume", "--out", str(out), *words])
            with pytest.raises(SystemExit) as stopped:
                main()
        return stopped.value.code, capsys.readouterr().err

    return call


def elsewhere(out, code=MAIN, env=OTHER):
    """Resume the run with other kernels: (status, standard error)."""
    command = [sys.executable, "-c", code, "run", "--resume", "--out", str(out)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stderr


def built(scheme):
    settings = {"data": {"name": "digits"}, "model": {"name": "linear"}, "scheme": scheme, "train": {"steps": 1}}
    return build(config.parse({**settings, "run": {"rounds": 4}}, "test"))


def begun(experiment, path, monkeypatch, ahead):
    """A run of four rounds that stopped after the third: by the user, or killed, with its checkpoint of the first."""
    monkeypatch.setattr(journal, "REST", 1e9)
    directory.open_directory(path, experiment.config, resume=True)
    run = directory.execute(experiment, path)
    for _ in range(3):
        next(run)
    if ahead:
        shutil.copytree(path, path.with_name("killed"))
    run.close()
    return path.with_name("killed") if ahead else path


def rows(path):
    return [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]


def held(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_the_name_tells_kernels_apart():
    ran = subprocess.run(
        [sys.executable, "-c", "from hush.models.kernels import kernels; print(kernels())"],
        env=OTHER,
        capture_output=True,
        text=True,
        check=True,
    )
    assert kernels() == kernels() != ran.stdout.strip()
    assert f" {torch.backends.cpu.get_cpu_capability()}, arithmetic " in kernels()
    assert f", torch {torch.__version__}, " in kernels()
    assert " DEFAULT, " in ran.stdout
    assert f"MKL_CBWR={LIMIT}" in ran.stdout


def test_a_run_goes_on_with_other_kernels_and_says_so(tmp_path, monkeypatch):
    experiment = built(PRIVATE)
    path = begun(experiment, tmp_path / "r", monkeypatch, ahead=False)
    status, err = elsewhere(path)
    assert status == 0
    assert f"before by {kernels()}" in err
    assert [row.get("kernels") is not None for row in rows(path)] == [False, False, False, True]
    assert rows(path)[3]["kernels"] in err
    assert [event.round for event in Ledger.load(path / "privacy.json").events] == [1, 2, 3, 4]
    ran = checkpoint.load_state(path / journal.CHECKPOINT)[1]["kernels"]
    assert ran == {"1": kernels(), "4": rows(path)[3]["kernels"]}
    assert list(directory.execute(experiment, path, same_cpu=True)) == []  # it is finished: nothing is computed


def test_the_same_kernels_go_on_in_silence(tmp_path, monkeypatch):
    experiment, said = built(PRIVATE), []
    path = begun(experiment, tmp_path / "r", monkeypatch, ahead=True)
    assert [row["round"] for row in directory.execute(experiment, path, True, said.append)] == [2, 3, 4]
    assert said == []
    assert [event.round for event in Ledger.load(path / "privacy.json").events] == [1, 2, 3, 4]


def test_no_round_is_released_twice_under_the_same_noise(tmp_path, monkeypatch, renamed):
    """The ledger is ahead of the checkpoint: other last bits under the same noise would reveal what it hides."""
    path = begun(built(PRIVATE), tmp_path / "r", monkeypatch, ahead=True)
    shutil.copytree(path, tmp_path / "first")
    shutil.rmtree(tmp_path / "first" / "checkpoint")  # as after a kill in the first round: the ledger knows as well
    (tmp_path / "first" / "rounds.jsonl").unlink()
    for folder, number in ((path, 2), (tmp_path / "first", 1)):
        before = {file: data for file, data in held(folder).items() if file.name != "rounds.jsonl"}
        status, err = renamed(folder)
        assert status == 2
        assert f"may have released round {number}, by {kernels()};" in err
        assert "under the same noise: go on there" in err
        assert before.items() <= held(folder).items()


def test_without_noise_a_round_may_be_repeated(tmp_path, monkeypatch, renamed):
    path = begun(built({"name": "fl-std"}), tmp_path / "r", monkeypatch, ahead=True)
    status, err = renamed(path)
    assert (status, "from round 2 on by" in err) == (0, True)
    assert [row.get("kernels") is not None for row in rows(path)] == [False, True, False, False]


def test_a_move_is_known_before_its_first_event(tmp_path, monkeypatch, renamed):
    """Killed elsewhere in the first round after the move, with its event on disk: at home it is not repeated."""
    experiment = built(PRIVATE)
    path = begun(experiment, tmp_path / "r", monkeypatch, ahead=False)
    assert elsewhere(path, DIES, NAMED)[0] == 9
    assert [event.round for event in Ledger.load(path / "privacy.json").events] == [1, 2, 3, 4]
    with pytest.raises(Mistake, match="may have released round 4"):
        next(directory.execute(experiment, path))
    assert renamed(path)[0] == 0
    assert [event.round for event in Ledger.load(path / "privacy.json").events] == [1, 2, 3, 4]


def test_same_cpu_refuses_other_kernels(tmp_path, monkeypatch, renamed):
    path = begun(built(PRIVATE), tmp_path / "r", monkeypatch, ahead=False)
    before = held(path)
    status, err = renamed(path, "--same-cpu")
    assert (status, "leave --same-cpu out" in err) == (2, True)
    assert held(path) == before


def test_data_that_came_out_otherwise_elsewhere(tmp_path, monkeypatch):
    """As features may, whose fingerprint then differs: the sentence names both kernels."""
    path = begun(built({"name": "fl-std"}), tmp_path / "r", monkeypatch, ahead=False)
    state, facts = checkpoint.load_state(path / journal.CHECKPOINT)
    checkpoint.save_state(path / journal.CHECKPOINT, state, {**facts, "kernels": {"1": "others"}})
    changed = built({"name": "fl-std"})
    changed.task.train.inputs[0] += 2.0**-10
    with pytest.raises(Mistake, match=r"features do that were made elsewhere \(there others; here "):
        next(directory.execute(changed, path))
