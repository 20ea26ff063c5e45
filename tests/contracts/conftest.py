from dataclasses import replace

import pytest

from hush.catalogue import ENTRIES, Entry, Knobs


@pytest.fixture
def knobs(knobs: Knobs) -> Knobs:
    """Fewer local steps: contracts are about what surrounds training."""
    return replace(knobs, steps=2)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`entry` is every scheme of the catalogue, `private` those that protect clients, `open_entry` those nobody.

    `record` are those that protect records. The one with all data in one place has no clients, and tests of its own.
    """
    levels = {"entry": ("client", "record", None), "private": ("client",), "record": ("record",), "open_entry": (None,)}
    for name, wanted in levels.items():
        if name in metafunc.fixturenames:
            found: list[Entry] = [e for e in ENTRIES.values() if e.level in wanted and e.name != "centralized"]
            metafunc.parametrize(name, found, ids=[e.name for e in found])
