"""Every scheme of the catalogue runs by its name, with the defaults that a newcomer gets."""

import json
import sys

import pytest

from hush.catalogue.entries import ENTRIES
from hush.cli import main

RECORDS = ("fl-standard-dp", "fl-sign-dp")


@pytest.mark.parametrize("name", ENTRIES)
def test_two_rounds_on_digits(name: str, tmp_path, monkeypatch, capsys):
    options = [
        "--data",
        "digits",
        "--rounds",
        "2",
        "--set",
        "scheme.accountant=rdp",
        "--out",
        str(tmp_path / "run"),
        "--json",
    ]
    if ENTRIES[name].private:
        options += ["--noise", "2", "--delta", "1e-3"]
    if name in RECORDS:  # a batch of 300 records is more than a client of digits has
        options += ["--set", "train.batch=5"]
    monkeypatch.setattr(sys, "argv", ["hush", "run", name, *options])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert end.value.code == 0, err
    last = json.loads(out)
    assert (last["round"], last["aborted"], last["refused"]) == (2, False, [])
    assert 0 < last["accuracy"] <= 1
    assert (last["epsilon"]["model"] == "none") == (not ENTRIES[name].private)
    nothing = name in ("centralized", "standalone")
    assert (last["bytes"]["up"]["payload"]["mean"] == 0) == nothing
    assert (tmp_path / "run" / "model.safetensors").exists() == (name != "standalone")
