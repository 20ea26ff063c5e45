"""Nothing is lost: a run killed at any moment resumes to the bit-identical result."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hush.cli import main
from hush.experiment import verify
from hush.experiment.checkpoint import load_state
from hush.privacy.ledger import Ledger

WORDS = [
    "run",
    "fl-top-dp",
    "--data",
    "digits",
    "--model",
    "mlp",
    "--ratio",
    "0.05",
    "--noise",
    "1",
    "--rounds",
    "25",
]
FEDPROX = str(Path(__file__).parents[2] / "examples" / "fedprox.py:private")
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(out, before="pass"):
    command = [
        sys.executable,
        "-c",
        f"from hush.cli import main; from hush.experiment import journal; {before}; main()",
        *WORDS,
        "--out",
        str(out),
        "--resume",
    ]
    return subprocess.Popen(command, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rounds(path):
    log = path / "rounds.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def kill_at(out, number, before="pass"):
    """Start or resume the run, and kill -9 it as soon as the round is in its log."""
    process = start(out, before)
    deadline = time.monotonic() + 120
    while len((out / "rounds.jsonl").read_bytes().splitlines() if (out / "rounds.jsonl").exists() else []) < number:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    spent = len(Ledger.load(out / "privacy.json").events)
    assert spent >= number, "the ledger shows less than was released"


def test_killed_twice_and_resumed_equals_the_run_that_was_not_killed(tmp_path, monkeypatch):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    monkeypatch.setattr(sys, "argv", ["hush", *WORDS, "--out", str(whole)])
    with pytest.raises(SystemExit, match="0"):
        main()
    kill_at(broken, 4)
    kill_at(broken, 13)
    assert start(broken).wait() == 0
    assert rounds(broken) == rounds(whole)
    assert (broken / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert Ledger.load(broken / "privacy.json").events == Ledger.load(whole / "privacy.json").events


def test_the_card_of_a_killed_run_is_that_of_the_rounds_it_finished(tmp_path):
    """Whatever the checkpoint holds: cohorts of later rounds are drawn again. Where they cannot be, all are charged."""
    out, said = tmp_path / "run", []
    kill_at(out, 13, before="journal.REST = 60")  # no checkpoint after the first
    done, ledger = rounds(out), Ledger.load(out / "privacy.json")
    assert load_state(out / "checkpoint" / "state.safetensors")[0].round < len(done)
    card = verify.card(out, said.append)
    found = {one["name"]: one["epsilon"] for one in card["adversaries"]}
    assert (card["rounds"], card["participation"]["worst"] <= len(done)) == (len(done), True)
    assert f"{len(done)} of 25 rounds are done" in said[0]
    for view in ("server", "upload"):
        said_then = done[-1]["epsilon"][view]
        if len(ledger.events) == len(done):
            assert found[view] == pytest.approx(said_then, rel=1e-9)
        else:  # of a round that was begun everybody is charged
            assert said_then < found[view] < 1.3 * said_then
    file = out / "config.toml"
    file.write_text(file.read_text().replace("\nseed = 0\n", "\nseed = 1\n"))
    other = verify.card(out)
    assert other["rounds"] < len(done)
    assert next(one["epsilon"] for one in other["adversaries"] if one["name"] == "server") > found["server"]


DRIVER = """
import itertools, os, sys
from pathlib import Path
import dp_accounting.rdp, scipy.stats, torch  # once, not in each child
torch.set_num_threads(1)
from hush.experiment import config
from hush.experiment import directory, journal
from hush.experiment.resolving import build

folder, rest = Path(sys.argv[1]), float(sys.argv[2])
scheme = {"name": sys.argv[3], "noise": 1.0, "clip": 0.1, "accountant": "rdp"}
settings = {"data": {"name": "digits"}, "run": {"rounds": 4}, "scheme": scheme, "train": {"steps": 1}}
if sys.argv[3] != "hush-trusted":
    settings["model"] = {"name": "linear"}
built = build(config.parse(settings, "test"))
journal.REST, journal.SHARE = rest, 0

def child(out, last=None):
    # Runs or resumes in a process of its own, which dies at the given call to the disk, before or after it.
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    calls = itertools.count(1)
    for name in ("fsync", "replace", "unlink"):
        def counted(*given, real=getattr(os, name)):
            call = next(calls)
            if call == last:
                os._exit(9)
            try:
                real(*given)
            finally:
                if last is not None and call == -last:
                    os._exit(9)
        setattr(os, name, counted)
    directory.open_directory(out, built.config, resume=True)
    for row in directory.execute(built, out):
        pass
    (folder / "calls").write_text(str(next(calls)))
    os._exit(0)

assert child(folder / "whole") == 0
calls = int((folder / "calls").read_text())
points = sorted({1 + calls * i // 6 for i in range(6)})
for point in points:
    out = folder / f"killed-{point}"
    assert child(out, point if point % 2 else -point) == 9 << 8, point
    child(out, 2 + point % 3)
    assert child(out) == 0, point
print(*points)
"""


SELDOM = 1e9  # seconds between two checkpoints: none but the first and the last


@pytest.mark.parametrize(
    ("name", "rest"),
    # The third draws the noise of earlier rounds again, the last is no file of hush.
    [("fl-std-dp", 0.0), ("fl-std-dp", SELDOM), ("hush-trusted", SELDOM), (FEDPROX, 0.0)],
    ids=["fl-std-dp", "fl-std-dp, few checkpoints", "hush-trusted, few checkpoints", "FedProx"],
)
def test_killed_at_any_call_to_the_disk(tmp_path, name, rest):
    """Twice: somewhere in the run, and at the beginning of the resumed one."""
    command = [sys.executable, "-c", DRIVER, str(tmp_path), str(rest), name]
    ran = subprocess.run(command, env=ENV, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    whole = tmp_path / "whole"
    for point in ran.stdout.split():
        broken = tmp_path / f"killed-{point}"
        assert rounds(broken) == rounds(whole), point
        for name in ("model.safetensors", "privacy.json"):
            assert (broken / name).read_bytes() == (whole / name).read_bytes(), (point, name)
        assert not (broken / "privacy.jsonl").exists()
