import sys

import pytest

from hush.cli import main


@pytest.fixture
def hush(monkeypatch, capsys, tmp_path):
    """Calls the command line in an empty directory: (status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["hush", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out = capsys.readouterr()
        return stopped.value.code, out.out, out.err

    return call
