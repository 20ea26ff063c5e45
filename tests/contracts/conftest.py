from dataclasses import replace

import pytest

from contracts.parts import TURNS
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings

APART = ("centralized", "standalone")
ALIKE = ("hush-tiny", "hush-once")  # hush with other settings


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
    for name, wanted in levels.items():
        if name in metafunc.fixturenames:
            left = (*APART, *ALIKE, *TURNS, *(("two-bit-dp",) if name == "adaptive" else ()))
            found: list[Entry] = [e for e in ENTRIES.values() if e.level in wanted and e.name not in left]
            metafunc.parametrize(name, found, ids=[e.name for e in found])
