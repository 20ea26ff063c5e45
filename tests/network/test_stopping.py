"""Parties that are stopped say goodbye and end, however often they are told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from network.parties import federation

pytestmark = pytest.mark.network


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_client_that_is_told_twice_ends_once(number: signal.Signals, tmp_path: Path) -> None:
    """As under `timeout`, which sends its signal to the process and to its group."""
    with federation(tmp_path, ("a", "b", "c"), {}) as place:
        command = [
            sys.executable,
            "-m",
            "hush",
            "client",
            "--kit",
            place.kit("a"),
            "--data",
            tmp_path / "rows" / "a.npz",
        ]
        party = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert party.stderr is not None
        assert "waiting for the server" in party.stderr.readline()
        for _ in range(3):
            os.kill(party.pid, number)
            time.sleep(0.02)
        assert party.wait(20) == 130
        assert "stopped" in party.stderr.read()
        party.stderr.close()
