"""Nothing is lost: a run killed at any moment resumes to the bit-identical result."""

import json
import os
import signal
import subprocess
import sys
import time

from hush.privacy import Ledger

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
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(out):
    command = [
        sys.executable,
        "-c",
        "from hush.cli import main; main()",
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


def kill_at(out, number):
    """Start or resume the run, and kill -9 it as soon as the round is in its log."""
    process = start(out)
    deadline = time.monotonic() + 120
    while len((out / "rounds.jsonl").read_bytes().splitlines() if (out / "rounds.jsonl").exists() else []) < number:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    spent = len(Ledger.load(out / "privacy.json").events)
    assert spent >= number, "the ledger shows less than was released"


def test_killed_twice_and_resumed_equals_the_run_that_was_not_killed(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(whole).wait() == 0
    kill_at(broken, 4)
    kill_at(broken, 13)
    assert start(broken).wait() == 0
    assert rounds(broken) == rounds(whole)
    assert (broken / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert Ledger.load(broken / "privacy.json").events == Ledger.load(whole / "privacy.json").events
