"""What a round of a run costs in files."""

import json
import os

import pytest

from hush.errors import Mistake
from hush.experiment import checkpoint, config, directory, journal
from hush.experiment.resolving import build
from hush.privacy.ledger import Ledger


@pytest.fixture
def disk(monkeypatch):
    """How often the disk was waited for."""
    calls = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append(file), real(file)))
    return calls


def experiment(name, **scheme):
    settings = {
        "data": {"name": "digits"},
        "model": {"name": "linear"},
        "scheme": {"name": name, "accountant": "rdp", **scheme},
        "train": {"steps": 1},
        "run": {"rounds": 6},
    }
    return build(config.parse(settings, "test"))


def begun(built, path):
    directory.open_directory(path, built.config, resume=True)
    return directory.execute(built, path)


@pytest.mark.parametrize(
    ("name", "scheme", "waits"), [("fl-std-dp", {"noise": 1.0, "clip": 0.1}, 1), ("fl-std", {}, 0)]
)
def test_a_round_waits_for_the_disk_once_for_its_event(tmp_path, disk, monkeypatch, name, scheme, waits):
    monkeypatch.setattr(journal, "REST", 1e9)
    built = experiment(name, **scheme)
    run = begun(built, tmp_path / "r")
    next(run)
    next(run)  # it begins the journal
    for _ in range(3):
        disk.clear()
        next(run)
        assert len(disk) == waits
    run.close()


def saved(path):
    return checkpoint.load_state(path / journal.CHECKPOINT)[0].round


def test_checkpoints_are_due_by_time_and_when_the_run_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "REST", 1e9)
    built, path = experiment("fl-std-dp", noise=1.0, clip=0.1), tmp_path / "r"
    run = begun(built, path)
    assert [next(run)["round"] for _ in range(4)] == [1, 2, 3, 4]
    assert saved(path) == 1
    run.close()
    assert saved(path) == 4
    assert json.loads((path / "privacy.json").read_text())["card"]["rounds"] == 4
    assert [row["round"] for row in begun(built, path)] == [5, 6]
    assert saved(path) == 6
    monkeypatch.setattr(journal, "REST", 0.0)
    monkeypatch.setattr(journal, "SHARE", 0.0)
    for row in begun(built, tmp_path / "often"):
        assert saved(tmp_path / "often") == row["round"]
    assert (path / "model.safetensors").read_bytes() == (tmp_path / "often" / "model.safetensors").read_bytes()


def test_the_log_is_on_disk_before_the_checkpoint_that_vouches_for_it(tmp_path, monkeypatch):
    files, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (files.append(os.readlink(f"/proc/self/fd/{file}")), real(file)))
    run = begun(experiment("fl-std"), tmp_path / "r")
    files.clear()
    next(run)
    order = [name.rsplit("/", 1)[-1] for name in files]
    assert order.index("rounds.jsonl") < next(n for n, name in enumerate(order) if "state.safetensors" in name)
    run.close()


def test_a_shortened_journal_under_a_checkpoint_is_refused(tmp_path):
    """Lines taken off the end leave a ledger that looks whole: the checkpoint knows better."""
    built, path = experiment("fl-std-dp", noise=1.0, clip=0.1), tmp_path / "r"
    run = begun(built, path)
    for _ in range(4):
        next(run)
    whole = (path / "privacy.json").read_bytes()
    run.close()
    assert len(Ledger.load(path / "privacy.json").events) == 4
    (path / "privacy.json").write_bytes(whole)  # as of the first round, and no journal
    with pytest.raises(Mistake, match="does not hold the 4 rounds"):
        next(begun(built, path))


def test_drafts_of_a_killed_process_are_no_run_and_are_cleared(tmp_path):
    built, path = experiment("fl-std"), tmp_path / "r"
    path.mkdir()
    draft = path / ".config.toml.1.part"
    draft.write_text("[da")
    next(begun(built, path))
    assert not draft.exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letters.txt").touch()
    with pytest.raises(Mistake, match="exists and holds no run"):
        begun(built, tmp_path / "other")
