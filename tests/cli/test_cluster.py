"""--cluster: the same files as without it."""

import sys
from pathlib import Path

import pytest
from clusters import leave

pytest.importorskip("ray")
FEDPROX = Path(__file__).parents[2] / "examples" / "fedprox.py"
SWEEP = """\
[data]
name = "digits"
clients = 40

[model]
name = "linear"

[scheme]
name = "fl-top-dp"
clip = 0.5
noise = 1.0
delta = 1e-3

[run]
rounds = 3

[grid]
"""


@pytest.fixture(scope="module", autouse=True)
def ended():
    """The cluster of the first command is that of all; it ends with them."""
    yield
    leave()


def test_a_run_is_the_same_to_the_bit(hush, tmp_path):
    """Of a scheme in a file of one's own, whose code the workers get."""
    words = (
        "run",
        f"{FEDPROX}:private",
        "--data",
        "digits",
        "--clip",
        1,
        "--noise",
        1,
        "--delta",
        "1e-3",
        "--cohort",
        30,
    )
    words = (*words, "--set", "run.workers=2", "--set", "run.block=10")
    for out, more in (("c", ("--cluster", "local")), ("s", ())):
        status, _, err = hush(*words, *more, "--rounds", 4, "--out", tmp_path / out)
        assert status == 0, err
        assert ("2 workers of the cluster local" in err) == bool(more)
    for name in ("model.safetensors", "config.toml"):
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "s" / name).read_bytes()


def test_a_sweep_has_the_same_table(hush, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(f"{SWEEP}run.seed = [0, 1]\n")
    for out, more in (("c", ("--cluster", "local")), ("s", ())):
        status, _, err = hush("sweep", file, "--out", tmp_path / out, "--workers", 2, *more)
        assert status == 0, err
    assert (tmp_path / "c" / "sweep.csv").read_bytes() == (tmp_path / "s" / "sweep.csv").read_bytes()
    file.write_text(f"{SWEEP}data.clients = [100000]\n")
    status, _, err = hush("sweep", file, "--out", tmp_path / "wrong", "--cluster", "local")
    assert status == 2
    assert err.splitlines()[-1].startswith("hush: clients-100000: ")


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_without_ray_it_is_one_sentence(hush, tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "ray", None)
    file = tmp_path / "s.toml"
    file.write_text(SWEEP.replace("[grid]\n", "") if command == "run" else f"{SWEEP}run.seed = [0, 1]\n")
    status, out, err = hush(command, file, "--out", tmp_path / "out", "--cluster", "local")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == "hush: --cluster needs Ray, which is not installed: pip install 'hush-fl[ray]'"
