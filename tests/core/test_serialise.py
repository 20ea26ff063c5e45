"""A scheme is written down and read back: every entry of the catalogue, its secured form, and nobody else's code."""

import json
import math
import sys
from dataclasses import dataclass, replace

import pytest

import hush
from hush.catalogue.entries import ENTRIES
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.plain import Sum
from hush.core.protocols import Stage
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.errors import Mistake
from hush.parts.registry import PARTS, from_json
from hush.parts.sampling import Fixed, Once, Poisson
from hush.parts.stages import Clip, Noise
from hush.parts.trainers import Sgd

PLAIN = Scheme(Sgd(0.1, 5, 10), Poisson(1 / 60), stages=(Clip(1), Noise(0.1 + 0.2)))

SUMMED = [name for name, e in ENTRIES.items() if e.example.aggregator == Sum() and not e.example.baseline]


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_of_the_catalogue(name: str) -> None:
    scheme = ENTRIES[name].example
    text = scheme.to_json()
    assert from_json(text) == scheme
    assert from_json(text).to_json() == text
    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) == text


@pytest.mark.parametrize("name", SUMMED)
def test_every_secured_form(name: str, task: Task, settings: Settings) -> None:
    sampling = Once(2) if ENTRIES[name].example.sampling.turns else Fixed(5)
    scheme = secured(ENTRIES[name].scheme(replace(settings, sampling=sampling)), task, full=True)
    assert from_json(scheme.to_json()) == scheme


def test_numbers_are_exact_and_equal_schemes_have_one_text() -> None:
    assert from_json(PLAIN.to_json()).stages[1].multiplier == 0.1 + 0.2
    assert replace(PLAIN, stages=(Clip(1.0), Noise(0.1 + 0.2))).to_json() == PLAIN.to_json()
    assert replace(PLAIN, stages=(Clip(1.0), Noise(0.3))).to_json() != PLAIN.to_json()
    tiny = replace(PLAIN, stages=(Clip(math.ulp(1.0)), Noise(sys.float_info.max)))
    assert from_json(tiny.to_json()) == tiny


def test_all_parts_are_registered() -> None:
    public = {getattr(hush, name) for name in hush.__all__}
    rooms = ("hush.parts", "hush.core.plain")
    found = {kind for kind in public if isinstance(kind, type) and kind.__module__.startswith(rooms)}
    assert found == set(PARTS)


@dataclass(frozen=True)
class Halve(Stage):
    """A part from outside."""

    times: int = 1

    def spec(self, s):
        return s

    def encode(self, x, ctx):
        return x / 2**self.times

    def decode(self, total, ctx):
        return total


def test_parts_from_outside_are_read_only_with_their_class() -> None:
    scheme = replace(PLAIN, stages=(Halve(2), *PLAIN.stages))
    text = scheme.to_json()
    assert f'"{__name__}:Halve"' in text
    with pytest.raises(Mistake, match=r"the part '\S+:Halve' is not known here: give its class"):
        from_json(text)
    assert from_json(text, Halve) == scheme


def test_reading_imports_nothing() -> None:
    """A name that could be imported is not: the module of a joke, which opens a browser."""
    text = PLAIN.to_json().replace('"part":"Clip"', '"part":"antigravity:Clip"')
    with pytest.raises(Mistake, match="is not known here"):
        from_json(text)
    assert "antigravity" not in sys.modules


def _changed(old: str, new: str) -> str:
    text = PLAIN.to_json()
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[" * 800 + "]" * 800, "no JSON|no scheme"),
        ("1", "describes int, and no scheme"),
        ('{"part":"Clip","bound":1.0}', "describes Clip, and no scheme"),
        ('{"part":["Clip"]}', "is not known here"),
        ("{}", "the part None is not known"),
        (_changed('"bound":1.0', '"bound":1.0,"bound":2.0'), "a key stands twice"),
        (_changed('"bound":1.0', '"bound":NaN'), "NaN is no number"),
        (_changed('"bound":1.0', '"bound":1e999'), "bound=inf does not fit Clip"),
        (_changed('"bound":1.0', '"bound":"1"'), "bound='1' does not fit Clip: it must be float"),
        (_changed('"bound":1.0', '"bound":true'), "bound=True does not fit"),
        (_changed('"bound":1.0', '"bound":-1.0'), "clip=-1.0 must be positive"),
        (_changed('"bound":1.0', '"limit":1.0'), "Clip has the fields bound, and not limit"),
        (_changed('"steps":5', '"steps":5.5'), "steps=5.5 does not fit Sgd"),
        (_changed('"part":"Sgd"', '"part":"Dpsgd"'), "Dpsgd has the fields"),
        (_changed('"balance":"none"', '"balance":"some"'), "balance='some' does not fit Sgd"),
        (_changed('{"bound":1.0,"part":"Clip"}', '{"part":"All"}'), r"stages=.* does not fit Scheme"),
        (_changed('{"bound":1.0,"part":"Clip"}', "7"), r"stages=.* does not fit Scheme"),
    ],
)
def test_what_is_not_a_scheme_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        from_json(text)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(Mistake, match="inf cannot be written down"):
        replace(PLAIN, average=math.inf).to_json()
    with pytest.raises(Mistake, match="object cannot be written down: make it a dataclass"):
        replace(PLAIN, trainer=object()).to_json()
