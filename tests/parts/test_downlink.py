"""Weights that travel down in few bits, and the error that stays at the server."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hush.core.plain import Exact
from hush.errors import Mistake
from hush.parts.downlink import Coarse


def rows(count: int, size: int, seed: int = 0) -> Tensor:
    """Weights that move a little from round to round."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator) + 0.02 * torch.randn(count, size, generator=generator).cumsum(0)


def slow(weights: list[float], downlink_error: list[float], bits: int, bucket: int) -> tuple[list[float], list[float]]:
    """The same, number by number, in float32 as numbers travel."""
    top, one = 2 ** (bits - 1) - 1, np.float32
    wanted = [one(w) + one(e) for w, e in zip(weights, downlink_error, strict=True)]
    sent = []
    for place, number in enumerate(wanted):
        first = place - place % bucket
        scale = max(abs(other) for other in wanted[first : first + bucket])
        level = one(round(number / scale * one(top))) if scale else one(0)
        sent.append(level / one(top) * scale)
    return [float(q) for q in sent], [float(w - q) for w, q in zip(wanted, sent, strict=True)]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("size", [1, 16, 37])
def test_as_its_slow_twin(bits: int, size: int) -> None:
    link, downlink_error, mine = Coarse(bits, 16), None, [0.0] * size
    for weights in rows(5, size):
        sent, downlink_error = link.send(weights, downlink_error)
        found, mine = slow(weights.tolist(), mine, bits, 16)
        assert sent.tolist() == found
        assert downlink_error.tolist() == mine


@given(st.integers(0, 2**31), st.sampled_from([2, 4, 8]), st.floats(1e-6, 1e6))
def test_nothing_is_lost(seed: int, bits: int, size: float) -> None:
    """What all rounds sent is what they meant, but for an error of at most half a level."""
    link, downlink_error, meant = Coarse(bits, 64), None, size * rows(30, 200, seed)
    got = torch.zeros(200, dtype=torch.float64)
    for weights in meant:
        sent, downlink_error = link.send(weights, downlink_error)
        got += sent
    missing = meant.double().sum(0) - got
    level = 2.5 * meant.abs().max() / link.form.top  # what is sent is a little more than what is meant
    assert missing.abs().max() <= level / 2
    assert torch.allclose(missing, downlink_error.double(), atol=1e-4 * float(level))


def test_a_weight_between_two_levels_is_right_on_average() -> None:
    """Without the error kept, 0.3 of a level would be nothing, for ever."""
    link, downlink_error, got = Coarse(8, 2), None, []
    for _ in range(100):
        sent, downlink_error = link.send(torch.tensor([127.0, 0.3]), downlink_error)
        got.append(sent[1].item())
    assert set(got) == {0.0, 1.0}
    assert np.mean(got) == pytest.approx(0.3, abs=0.01)


def test_what_is_sent_can_be_packed() -> None:
    link = Coarse(8, 16)
    for weights in (rows(1, 37)[0], torch.zeros(37), torch.full((37,), 1e-38), torch.tensor([3e38, -1e-3])):
        sent, _ = link.send(weights, None)
        assert torch.equal(link.form.unpack(link.form.pack(sent), sent.numel()), sent)


def test_what_is_sent_is_aligned() -> None:
    """As torch makes it, in every run: where it is not, the kernels of a product may take another path."""
    held = [Coarse(8).send(weights, None)[0] for weights in rows(20, 100)]
    assert [sent.data_ptr() % 64 for sent in held] == [0] * 20


def test_exact_owes_nothing() -> None:
    weights = rows(1, 9)[0]
    sent, downlink_error = Exact().send(weights, None)
    assert torch.equal(sent, weights)
    assert downlink_error is None


@pytest.mark.parametrize(("given", "told"), [({"bits": 3}, "bits=3"), ({"bucket": 0}, "bucket=0")])
def test_refused(given: dict[str, int], told: str) -> None:
    with pytest.raises(Mistake, match=told):
        Coarse(**given)
