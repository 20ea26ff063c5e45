from dataclasses import replace

import pytest

from contracts.parts import TURNS
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.parts.blocks import Blocks

APART = ("centralized", "standalone")
ALIKE = ("hush-tiny", "hush-once")  # hush with other settings


def blocked(name: str) -> Entry:
    """The scheme of this name, its coordinates in three blocks."""
    found = ENTRIES[name]

    def build(k: Settings) -> Scheme:
        base = found.build(k)
        return replace(base, coordinates=Blocks(3, base.coordinates))

    return replace(found, name=f"{name} in blocks", build=build)


BLOCKED = tuple(map(blocked, ("fl-top-dp", "fl-std-dp", "fl-std", "two-bit-dp")))
SIZED = ("test_bytes", "test_noise")  # which know how long an upload is: tests/parts/test_blocks.py has those of blocks


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Fewer local steps: contracts are about what surrounds training."""
    return replace(settings, steps=2)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`entry` is every scheme of the catalogue, `private` those that protect clients, `open_entry` those nobody.

    `record` are those that protect records, `adaptive` those that protect clients and whose uploads have room for the
    count of an adaptive clip. Those where nothing travels, or whose clients must have turns, have tests of their own.
    """
    levels = {
        "entry": ("client", "record", None),
        "private": ("client",),
        "adaptive": ("client",),
        "record": ("record",),
        "open_entry": (None,),
    }
    every = [*ENTRIES.values(), *(() if metafunc.module.__name__.endswith(SIZED) else BLOCKED)]
    for name, wanted in levels.items():
        if name in metafunc.fixturenames:
            left = (*APART, *ALIKE, *TURNS, *(("two-bit-dp", "two-bit-dp in blocks") if name == "adaptive" else ()))
            found: list[Entry] = [e for e in every if e.level in wanted and e.name not in left]
            metafunc.parametrize(name, found, ids=[e.name for e in found])
