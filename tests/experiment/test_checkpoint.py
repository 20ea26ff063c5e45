"""A state with bytes of secure sums comes back from the disk; one from before there were any does too."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from hush.core.state import Books, State
from hush.errors import Mistake
from hush.experiment.checkpoint import load_state, save_state
from hush.secure.tally import GRAPH, Tally


def state() -> State:
    return State(3, torch.arange(5.0), None, None, Books(3, Books.first(7).traffic, Books.first(7).participation))


def summed(kept: State) -> None:
    tally = Tally(GRAPH, 4)
    tally.up[:], tally.down[:] = np.arange(20).reshape(5, 4) + 100, np.arange(20).reshape(5, 4)
    kept.traffic.summed(np.array([6, 2, 0, 3]), tally, 90)
    kept.traffic.settle()


def test_phases_come_back_in_their_order(tmp_path: Path) -> None:
    kept = state()
    summed(kept)
    save_state(tmp_path / "state", kept, {"a": 1})
    found, facts = load_state(tmp_path / "state")
    assert facts == {"a": 1}
    assert json.dumps(found.traffic.summary()) == json.dumps(
        kept.traffic.summary()
    )  # to the letter, as in a run's files
    assert list(found.traffic.phases) == list(GRAPH)
    for other in (kept, found):
        summed(other)
    assert json.dumps(found.traffic.summary()) == json.dumps(kept.traffic.summary())
    for name, both in kept.traffic.phases.items():
        np.testing.assert_array_equal(found.traffic.phases[name], both)


def test_a_copy_has_its_own_phases() -> None:
    kept = state()
    summed(kept)
    own = kept.copy()
    before = json.dumps(own.traffic.summary())
    assert before == json.dumps(kept.traffic.summary())
    summed(kept)
    kept.books.settle()
    assert json.dumps(own.traffic.summary()) == before != json.dumps(kept.traffic.summary())


def test_without_secure_sums_nothing_is_told_of_them(tmp_path: Path) -> None:
    save_state(tmp_path / "state", state(), {})
    assert b"phase" not in (tmp_path / "state").read_bytes()  # as it was before there were any
    found, _ = load_state(tmp_path / "state")
    assert found.traffic.phases == {}
    assert list(found.traffic.summary()) == ["up", "down"]


def test_a_changed_phase_is_refused(tmp_path: Path) -> None:
    kept = state()
    summed(kept)
    save_state(tmp_path / "state", kept, {})
    whole = (tmp_path / "state").read_bytes()
    at = whole.index(kept.traffic.phases["consent"].tobytes())
    (tmp_path / "state").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(Mistake, match="corrupt"):
        load_state(tmp_path / "state")


def test_tensors_come_back_aligned(tmp_path: Path) -> None:
    """As torch makes them: the kernels of a product may take another path, and round otherwise, where they are not."""
    for name in ("a", "bb", "ccc", "dddd", "a longer name"):
        save_state(tmp_path / "state", state(), {name: 1})
        assert load_state(tmp_path / "state")[0].weights.data_ptr() % 64 == 0
