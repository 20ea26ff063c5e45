"""The worst and the middle client's epsilon, against a look at everybody."""

from dataclasses import replace

import numpy as np
import pytest

from hush.errors import Mistake
from hush.privacy import joins
from hush.privacy.accountants import Release, epsilon
from hush.privacy.events import Event
from hush.privacy.views import Participation, Spent, views

DELTA = 1e-5
SIZES = np.array([804, 900, 1200, 1200, 2000, 3114, 5000, 8000, 12447])
EVENT = Event(1, 1.08, 1.08, 1 / 3, "fixed", level="record", batch=300 / 804)


def filled(cohorts, event=EVENT, sizes=SIZES, known=True):
    participation = Participation(len(sizes))
    if known:
        participation.probabilities = 300 / sizes
    for members in cohorts:
        participation.add(event, members)
    return participation


def everybody(participation, event=EVENT, accountant="pld", probabilities=None):
    """The epsilon of every client, each by itself."""
    found = []
    moved = event.reach * (2 if event.batches == "fixed" else 1)
    for rounds, probability in zip(
        participation.rounds, participation.probabilities if probabilities is None else probabilities, strict=True
    ):
        release = Release(event.noise / moved, probability, max(1, int(rounds)) * event.steps, event.batches == "fixed")
        found.append(epsilon([release], DELTA, accountant) if rounds else 0.0)
    return sorted(found)


@pytest.mark.parametrize("accountant", ["moments", "rdp", "pld"])
@pytest.mark.parametrize("change", [{}, {"steps": 3, "reach": 2, "batches": "fixed"}])
def test_worst_and_median_are_those_of_a_look_at_everybody(accountant, change):
    rng = np.random.default_rng(3)
    event = replace(EVENT, **change)
    participation = filled([rng.choice(9, 3, replace=False) for _ in range(12)], event)
    worst, median = participation.extremes().epsilons(DELTA, accountant)
    exact = everybody(participation, event, accountant)
    assert worst == pytest.approx(exact[-1], rel=1e-9)
    assert exact[4] * (1 - 1e-9) <= median <= exact[4] * 1.02


def test_the_median_is_the_higher_of_two_and_never_understated():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(300, 4000, int(rng.integers(2, 16)))
        members = [np.flatnonzero(rng.random(len(sizes)) < 0.3) for _ in range(8)]
        participation = filled(members, replace(EVENT, batch=300 / sizes.min()), sizes)
        worst, median = participation.extremes().epsilons(DELTA, "moments")
        exact = everybody(participation, accountant="moments")
        assert worst == pytest.approx(exact[-1], rel=1e-9)
        assert exact[len(sizes) // 2] * (1 - 1e-9) <= median <= max(exact[len(sizes) // 2] * 1.1, 1e-9)


def test_the_views_of_records():
    participation = filled([[0, 5], [5, 6], [5, 7]])
    events = [replace(EVENT, round=number) for number in (1, 2, 3)]
    found = views(events, participation, DELTA)
    assert list(found) == ["model", "server", "server_median", "upload", "upload_median"]
    once, thrice = (epsilon([Release(1.08, p, n)], DELTA) for p, n in ((300 / 804, 1), (300 / 3114, 3)))
    assert found["server"] == found["upload"] == pytest.approx(max(once, thrice))
    assert found["server_median"] == 0.0  # five of nine never came
    assert list(views(events, participation, DELTA, secure=True)) == ["model", "server", "server_median"]
    assert (participation.worst(), participation.median()) == (3, 0.0)


def test_a_report_keeps_what_its_round_had_spent():
    participation = filled([[0, 1, 2, 3, 4]])
    early = Spent((), participation.extremes()).extremes
    participation.add(EVENT, [0, 1, 2, 3, 4, 5])
    assert early.epsilons(DELTA) < participation.extremes().epsilons(DELTA)
    assert early.epsilons(DELTA)[0] == pytest.approx(epsilon([Release(1.08, 300 / 804)], DELTA))


def test_a_checkpoint_holds_the_records():
    participation = filled([[0, 1], [1, 2]])
    participation.add(replace(EVENT, steps=2, noise=9.0, share=9.0), [3])
    state = {name: np.asarray(array) for name, array in participation.state().items()}
    again = Participation.of(state)
    assert again.extremes().epsilons(DELTA) == participation.extremes().epsilons(DELTA)
    again.add(EVENT, [1])
    assert again.extremes().epsilons(DELTA) != participation.extremes().epsilons(DELTA)
    assert again.joins.counts()[next(iter(again.joins.counts()))].tolist() == [1, 3, 1, 0, 0, 0, 0, 0, 0]
    assert participation.rounds.tolist() == [1, 2, 1, 1, 0, 0, 0, 0, 0]
    assert "probabilities" not in filled([], known=False).state()


def test_without_chances_every_client_counts_as_the_smallest():
    participation = filled([[8]], known=False)
    assert participation.extremes().epsilons(DELTA)[0] == pytest.approx(epsilon([Release(1.08, 300 / 804)], DELTA))


def test_rounds_of_another_training_count_as_if_all_clients_were_the_smallest():
    """Events that nobody remembers the members of are charged to everybody, at their own largest probability."""
    other = replace(EVENT, batch=0.5, noise=2.0, share=2.0)
    participation = filled([])
    participation.catch_up([other, other])
    participation.add(EVENT, [8])
    worst, median = participation.extremes().epsilons(DELTA)
    assert worst == pytest.approx(epsilon([Release(2.0, 0.5, 2), Release(1.08, 300 / 12447)], DELTA))
    assert median == pytest.approx(epsilon([Release(2.0, 0.5, 2)], DELTA))


def test_no_noise_leaves_none_to_those_who_came():
    participation = filled([[0, 1]], replace(EVENT, noise=0.0, share=0.0))
    assert participation.extremes().epsilons(DELTA) == (float("inf"), 0.0)


def test_a_later_round_asks_for_few_epsilons_anew():
    """Most clients stay where they were, and so do their epsilons."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(804, 12447, 300)
    participation = filled([], sizes=sizes)
    event = replace(EVENT, batch=float(300 / sizes.min()))
    asked = []
    for _ in range(40):
        participation.add(event, rng.choice(300, 3, replace=False))
        before = joins._client.cache_info().misses
        participation.extremes().epsilons(DELTA, "moments")
        asked.append(joins._client.cache_info().misses - before)
    assert sum(asked) < 150  # and not 40 times 300


@pytest.mark.parametrize("values", [[0.5] * 8, [0.5] * 8 + [0.0], [0.5] * 8 + [1.5], [0.5] * 8 + [float("nan")]])
def test_wrong_chances_are_refused(values):
    with pytest.raises(Mistake, match="probabilities must be 9 numbers"):
        Participation(9).probabilities = values


def test_chances_do_not_change_on_the_way():
    participation = filled([[0]])
    participation.probabilities = 300 / SIZES
    with pytest.raises(Mistake, match="probabilities differ"):
        participation.probabilities = 200 / SIZES
