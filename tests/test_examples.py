"""The examples that train a language model run, for two rounds, and get better."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_a_character_language_model(capsys: pytest.CaptureFixture[str]) -> None:
    perplexity = runpy.run_path(str(EXAMPLES / "language" / "train.py"))["main"](rounds=2)
    assert perplexity < 60  # of 100 signs that it begins with
    assert (
        len([line for line in capsys.readouterr().out.splitlines() if "perplexity" in line and "epsilon" in line]) == 2
    )


def test_adapters_on_a_frozen_transformer(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runpy.run_path(str(EXAMPLES / "lora" / "train.py"))["main"](rounds=2)
    assert after < before
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("1,280 weights of adapters travel")
    assert "bytes up at most" in last
