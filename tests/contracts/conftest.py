from dataclasses import replace

import pytest

from hush.catalogue import ENTRIES, Entry, Knobs


@pytest.fixture
def knobs(knobs: Knobs) -> Knobs:
    """Fewer local steps: contracts are about what surrounds training."""
    return replace(knobs, steps=2)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`entry` is every scheme of the catalogue, `private` those with noise, `open_entry` the others."""
    for name, wanted in (("entry", None), ("private", True), ("open_entry", False)):
        if name in metafunc.fixturenames:
            found: list[Entry] = [e for e in ENTRIES.values() if wanted in (None, e.private)]
            metafunc.parametrize(name, found, ids=[e.name for e in found])
