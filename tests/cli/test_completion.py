"""What a shell asks when somebody presses Tab, and how it learns to ask."""

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "import sys; sys.argv[0] = 'hush'; from hush.cli import main; main()"]


def asked(words, home=None):
    """What completion offers for the last word."""
    environment = {
        **os.environ,
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_HUSH_COMPLETE": "complete_bash",
    }
    return subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("hush rep", ["reproduce"]),
        ("hush privacy c", ["card"]),
        ("hush run --log", ["--log-to"]),
        ("hush run hush-", ["hush-tiny", "hush-once", "hush-trusted"]),
        ("hush schemes two", ["two-bit", "two-bit-dp"]),
        ("hush run examples/", []),  # the shell offers files then
    ],
)
def test_what_is_offered(words, offered):
    assert asked(words) == offered


@pytest.mark.parametrize(("shell", "file"), [("bash", ".bash_completions/hush.sh"), ("zsh", ".zfunc/_hush")])
def test_it_can_be_shown_and_installed(shell, file, tmp_path):
    # With detection off the shell is named; else it is the one that calls.
    known = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(
        [*COMMAND, "--show-completion", shell], env=known, capture_output=True, text=True, check=True
    )
    assert "_HUSH_COMPLETE=complete_" in shown.stdout
    subprocess.run([*COMMAND, "--install-completion", shell], env=known, capture_output=True, check=True)
    assert "_HUSH_COMPLETE=complete_" in (tmp_path / file).read_text()
