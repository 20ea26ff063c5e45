"""What answers at once: no command imports a slow library before it needs it."""

import subprocess
import sys

import pytest

SLOW = ("torch", "scipy.stats", "sklearn", "matplotlib", "polars", "dp_accounting")
NOISE = "--rate 1/60 --rounds 200 --delta 1e-5"


def imported(code: str, folder) -> set[str]:
    """The slow libraries that a fresh interpreter has loaded after this code."""
    last = f"import sys; print('loaded', *(name for name in {SLOW!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{last}"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def command(words: str) -> str:
    """A call of the command line that ends well and does not end the interpreter."""
    return (
        f"import sys; sys.argv = ['hush', *{words.split()!r}]; from hush.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code"
    )


def test_import_hush(tmp_path):
    assert imported("import hush; dir(hush); hush.__version__; hush.Mistake", tmp_path) == set()


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "run --help",
        "schemes --help",
        "privacy --help",
        f"privacy noise --epsilon 1 {NOISE}",
        f"privacy epsilon --noise 1.3 {NOISE}",
        f"privacy epsilon --noise 1.3 --accountant moments {NOISE}",
        "data list",
        "settings",
        "settings --help",
        "settings --json",
        "settings fl-top-dp",
        "schemes",
        "schemes fl-top-dp",
        "schemes --json",
        "federation --help",
        "federation init . --host localhost --site a",
        "federation request a",
    ],
)
def test_commands(words, tmp_path):
    assert imported(command(words), tmp_path) == set()


def test_the_list_is_of_what_is_loaded_when_it_is_needed(tmp_path):
    """So that the tests above do not hold for want of a name."""
    assert "torch" in imported("import hush; hush.Clip", tmp_path)


def test_what_a_run_loads(tmp_path):
    """Before its first round it has torch, and nothing that only some runs need."""
    code = "import hush.experiment.directory, hush.experiment.resolving, hush.federation.simulated"
    assert imported(code, tmp_path) == {"torch"}
