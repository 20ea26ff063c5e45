"""The installed command in a clean environment: what a person meets in the first minute, and on a bad day."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from hush import __version__
from hush.models.kernels import LIMITS

HUSH = Path(sys.executable).parent / "hush"
RUN = ["run", "fl-top-dp", "--data", "digits", "--model", "linear", "--ratio", "0.2", "--clients", "40", "--noise", "1"]
LONG = [*RUN, "--cohort", "10", "--rounds", "40", "--set", "scheme.accountant=moments", "--set", "run.eval_every=10"]


def clean(home):
    """No settings of one's own: an empty home and cache, and no variable but where programs are, and which kernels."""
    known = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", *LIMITS) if name in os.environ}
    # Under a limit of sizes Python would leave cut byte code behind.
    return {**known, "HOME": str(home), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def ran(folder, *words, largest=None):
    """It runs to its end: (status, standard output, standard error)."""

    def limit():
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    done = subprocess.run(
        [HUSH, *words],
        env=clean(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        preexec_fn=limit,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def call(tmp_path):
    """The same in an empty folder of the test's own."""
    return partial(ran, tmp_path)


def test_python_m_hush_is_the_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hush", "--version"], env=clean(tmp_path), cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"hush {__version__}\n")


def test_the_bare_command_prints_its_help(call):
    status, out, err = call()
    assert (status, err) == (0, "")
    assert out.split() == call("--help")[1].split()
    assert "Usage: hush" in out
    for name in ("data", "privacy"):
        status, out, err = call(name)
        assert (status, err) == (0, "")
        assert f"Usage: hush {name}" in out


def test_the_version(call):
    assert call("--version") == (0, f"hush {__version__}\n", "")


NUMBERS = [
    (
        ["--epsilon", "1", "--delta", "0"],
        "scheme.delta = 0.0 must be between 1e-100 and 1: take less than one over",
    ),
    (["--epsilon", "0", "--delta", "1e-5"], "scheme.epsilon = 0.0 must be between 0.001 and 1000000: take 1"),
    (["--clip", "1e40"], "scheme.clip = 1e+40 must be 'paper', 'public' or 'adaptive' or less than 1e30"),
    (["--rounds", "0"], "run.rounds = 0 must be at least 1"),
    (["--set", "train.batch=many"], "train.batch = 'many' must be an integer or 'all'"),
]


def sentence_of(answer):
    """What a refused command says: one short line on standard error, nothing else."""
    status, out, err = answer
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert len(err) < 150
    return err


def test_a_delta_of_zero_is_one_sentence(call):
    words, sentence = NUMBERS[0]
    assert sentence_of(call("run", "fl-top-dp", *words)).startswith(f"hush: options: {sentence}")


@pytest.mark.parametrize(("words", "sentence"), NUMBERS[1:])
def test_a_number_out_of_its_range_is_one_sentence(hush, words, sentence):
    """In the tests' own process: to start the command takes a second."""
    assert sentence_of(hush("run", "fl-top-dp", *words)).startswith(f"hush: options: {sentence}")


def rows(path):
    """The rounds of a run without their seconds."""
    lines = (path / "rounds.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]


def left(path):
    """What a finished run states: its rounds, its ledger and its model."""
    return rows(path), *((path / name).read_bytes() for name in ("privacy.json", "model.safetensors", "config.toml"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    assert ran(folder, *LONG, "--out", "whole")[0] == 0
    return left(folder / "whole")


def interrupted(folder, words, lines):
    """The command gets Ctrl-C when the log has so many lines: (status, standard error)."""
    log = folder / "runs" / "fl-top-dp-digits" / "rounds.jsonl"
    process = subprocess.Popen([HUSH, *words], env=clean(folder), cwd=folder, stderr=subprocess.PIPE, text=True)
    while not log.exists() or log.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    return process.communicate()[1], process.returncode


def test_ctrl_c_says_how_to_go_on(tmp_path, whole):
    """Twice, in a run that would take hours: it goes on from where it was stopped, to the same rounds."""
    words, place = [*LONG, "--rounds", "1000000"], "runs/fl-top-dp-digits"
    for more, lines in (([], 2), (["--resume", "--out", place], 45)):
        err, status = interrupted(tmp_path, [*words, *more], lines)
        assert status == 130
        assert err.splitlines()[-1] == f"hush: stopped; the same command goes on with --resume --out {place}"
        assert "Traceback" not in err
    found = rows(tmp_path / place)
    assert [row["round"] for row in found] == list(range(1, len(found) + 1))
    assert found[:39] == whole[0][:39]  # the last one of the whole run is evaluated


# The largest size of a file, in bytes: what has no room is the configuration, the checkpoint, the page, the log. A
# limit for files is a full disk that needs no disk: the same calls fail, with EFBIG in place of ENOSPC.
@pytest.mark.parametrize("largest", [300, 4000, 12000, 20000])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on(call, hush, tmp_path, whole, largest):
    status, out, err = call(*LONG, "--out", "r", largest=largest)
    assert (status, out) == (2, ""), err
    assert "Traceback" not in err
    begun = (tmp_path / "r" / "config.toml").exists()
    remedy = "then go on with --resume" if begun else "or choose another --out"
    assert err.splitlines()[-1] == f"hush: r cannot be written (File too large): make room there, {remedy}"
    assert not list((tmp_path / "r").rglob(".*.part"))
    assert hush(*LONG, "--out", "r", "--resume")[0] == 0
    assert left(tmp_path / "r") == whole


def test_no_room_for_what_is_printed(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [HUSH, "data", "list"], env=clean(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr.startswith("hush: a file cannot be written (No space left on device)")
    assert done.stderr.count("\n") == 1
