"""Combinations that would break a guarantee are refused before any data, with the remedy."""

import math

import pytest

from hush.core.protocols import Stage
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.errors import Mistake
from hush.parts.sampling import Fixed
from hush.parts.stages import AdaptiveClip, Clip, Noise, Weigh
from hush.parts.trainers import Sgd


def scheme(*stages: Stage) -> Scheme:
    return Scheme(Sgd(0.1, 1, 1), Fixed(2), stages=stages)


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ((Noise(1.0),), r"Noise\(1.0\) needs a bounded input: put Clip\(c\) before it"),
        ((Weigh(), Noise(1.0)), r"Noise\(1.0\) needs a bounded input"),
        ((Clip(1.0), Weigh()), r"Weigh\(\) after Clip or Noise breaks their bound: leave it out"),
        ((Clip(1.0), Noise(1.0), Weigh()), r"Weigh\(\) after Clip or Noise breaks their bound: leave it out"),
        ((AdaptiveClip(1.0), Weigh()), r"Weigh\(\) after Clip or Noise"),
        ((Weigh(), Clip(1.0)), "Clip after Weigh .* leave Weigh out"),
        ((Weigh(), AdaptiveClip(1.0)), "AdaptiveClip after Weigh .* leave Weigh out"),
        ((Clip(1.0), Noise(1.0), Clip(1.0)), "Clip after Noise would cut the noise: put it before"),
        ((Clip(1.0), Noise(1.0), AdaptiveClip(1.0)), "AdaptiveClip after Noise would cut the noise"),
        ((Clip(1.0), Noise(1.0), Noise(2.0)), r"Noise\(2.0\) after another Noise: one is enough"),
    ],
)
def test_refused(stages: tuple[Stage, ...], sentence: str, task: Task) -> None:
    with pytest.raises(Mistake, match=sentence):
        scheme(*stages).check(task)


def test_an_adaptive_bound_is_adapted_once(task: Task) -> None:
    """Two of them would move one bound by two counts."""
    with pytest.raises(Mistake):
        scheme(AdaptiveClip(1.0), AdaptiveClip(2.0), Noise(1.0)).check(task)


@pytest.mark.parametrize(
    ("stages", "l2", "size", "noise"),
    [
        ((), math.inf, 910, None),
        ((Weigh(),), math.inf, 910, None),
        ((Clip(0.5),), 0.5, 910, None),
        ((Clip(0.5), Clip(2.0), Noise(1.5)), 0.5, 910, 1.5),
        ((Clip(2.0), Clip(0.5), Noise(1.5)), 0.5, 910, 1.5),
        ((AdaptiveClip(0.5, weight=0.4), Noise(1.5)), math.hypot(0.5, 0.1), 911, 1.5),
    ],
)
def test_specs(stages: tuple[Stage, ...], l2: float, size: int, noise: float | None, task: Task) -> None:
    made = scheme(*stages)
    made.check(task)
    last = made.specs(910)[-1]
    assert (last.l2, last.size, last.noise) == (pytest.approx(l2), size, noise)
    assert made.private == (noise is not None)


def test_an_adaptive_bound_in_force() -> None:
    spec = scheme(AdaptiveClip(0.5, weight=0.4), Noise(1.0)).specs(10, clip=2.0)[-1]
    assert spec.l2 == pytest.approx(math.hypot(2.0, 0.4))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Clip(-1.0), "clip=-1.0 must be positive"),
        (lambda: Clip(0.0), "clip=0.0 must be positive"),
        (lambda: Clip(math.inf), "clip=inf must be positive and finite"),
        (lambda: Clip(math.nan), "clip=nan must be positive"),
        (lambda: Noise(-1.0), "noise=-1.0 must be positive"),
        (lambda: Noise(0.0), "noise=0.0 must be positive"),
        (lambda: Noise(math.nan), "noise=nan must be positive"),
        (lambda: AdaptiveClip(0.0), "clip=0.0 must be positive"),
        (lambda: AdaptiveClip(1.0, quantile=1.0), "quantile=1.0 must be in"),
        (lambda: AdaptiveClip(1.0, rate=0.0), "must be positive"),
        (lambda: AdaptiveClip(1.0, weight=-1.0), "must be positive"),
    ],
)
def test_wrong_numbers(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()
