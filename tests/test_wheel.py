"""The wheel in a clean environment: its own files alone, with the dependencies of this one."""

import json
import os
import shlex
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from test_docs import blocks, dialogue

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from the tree as `make dist` does."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment that has this wheel, and sees torch and the others where they are installed already."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A line of a .pth is a path to look in; the .pth files in there, such as that of an editable hush, are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture
def clean(installed, tmp_path):
    """Runs a command of the environment in an empty folder."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "COLUMNS")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}

    def call(name, *words):
        return subprocess.run(
            [installed / "bin" / name, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_it_holds_every_file_of_the_package(wheel):
    """Code, schemas, listings and the mark of a typed package; no text, test or experiment."""
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "hush").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == here
    assert "hush/py.typed" in held


def test_the_first_trial_runs(clean, installed, tmp_path):
    place = clean("python", "-c", "import hush; print(hush.__file__)")
    assert Path(place.stdout.strip()).is_relative_to(installed)
    [(_, trial)] = blocks("docs/tutorial.md", "console")
    command, shown = dialogue(trial)[0]
    done = clean(*shlex.split(command))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:8] == shown.split()[:8]
    last = json.loads((tmp_path / "runs/trial/rounds.jsonl").read_text().splitlines()[-1])
    assert last["round"] == 20
    assert last["accuracy"] > 0.7
    used = clean("hush", "predict", "runs/trial", "digits", "--json")
    assert used.returncode == 0, used.stderr
    assert json.loads(used.stdout)["accuracy"] == last["accuracy"]


def test_pipx_run_finds_a_command_of_the_package_name(clean):
    code = """from importlib.metadata import distribution
[point] = distribution("hush-fl").entry_points.select(group="pipx.run")
print(point.name, point.load().__module__)"""
    assert clean("python", "-c", code).stdout.split() == ["hush-fl", "hush.cli"]


def test_reproduce_says_that_the_tables_are_in_a_clone(clean):
    done = clean("hush", "reproduce", "--list")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "are in the folder experiments of a clone" in done.stderr
