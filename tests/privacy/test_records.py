"""Records of clients that are drawn: what the accountants state against what an observer can really tell."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from scipy import stats

from hush.errors import Mistake
from hush.privacy.accountants import ACCOUNTANTS, Release, epsilon
from hush.privacy.calibration import noise_for, spent
from hush.privacy.events import Event, relation, releases
from hush.privacy.views import model_epsilon, paper_epsilon, unnoticed_epsilon

DELTA = 1e-5
CLIENT, BATCH = 3 / 314, 300 / 804
RECORD = Event(1, 1.08, 1.08, CLIENT, "fixed", level="record", batch=BATCH)


def rounds(event, count):
    return [replace(event, round=number) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("noise", "moments", "pld"),
    [(1.08, 1, 0.28), (0.81, 2, 0.72), (0.63, 4, 2.10)],
)
def test_the_papers_three_settings(noise, moments, pld):
    events = rounds(replace(RECORD, noise=noise, share=noise), 300)
    assert paper_epsilon(events, DELTA) == pytest.approx(moments, abs=0.05)
    assert epsilon([Release(noise, 0.003565, 300)], DELTA, "moments") == pytest.approx(moments, abs=0.05)
    assert unnoticed_epsilon(events, 1.3e-5) == pytest.approx(pld, abs=0.006)
    assert model_epsilon(events, 1.3e-5) > unnoticed_epsilon(events, 1.3e-5)


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_noise_that_promises_next_to_nothing_has_a_figure_as_well(noise):
    """Losses whose exponentials are no numbers."""
    events = rounds(replace(RECORD, noise=noise, share=noise, rate=1 / 6, batch=1.0, batches="fixed"), 1)
    assert model_epsilon(events, 1e-5) >= unnoticed_epsilon(events, 1e-5) > 0.4 / noise**2


def test_downsampling_halves_the_noise_and_the_paper_does_not_count_it():
    events = rounds(replace(RECORD, reach=2), 300)
    assert unnoticed_epsilon(events, DELTA, "moments") == pytest.approx(6.13, abs=0.005)
    assert unnoticed_epsilon(events, DELTA, "pld") == pytest.approx(3.77, abs=0.005)
    assert paper_epsilon(events, DELTA) == pytest.approx(1.04, abs=0.005)
    half = rounds(replace(RECORD, noise=0.54, share=0.54), 300)
    assert model_epsilon(events, DELTA) == model_epsilon(half, DELTA)


def test_the_papers_theorem_takes_later_steps_at_the_rate_within_the_client():
    first, later = Release(1.08, CLIENT * BATCH, 40), Release(1.08, BATCH, 40 * 4)
    events = rounds(replace(RECORD, steps=5), 40)
    assert paper_epsilon(events, DELTA) == epsilon([first, later], DELTA, "moments")


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("fixed", [False, True])
def test_the_model_view_is_the_binomial_mean_over_the_rounds_joined(steps, fixed):
    """delta(e) = sum over k of P(k rounds joined) delta_k(e), with delta_k by the library, round by round."""
    noise, batch, client, count = 1.3, 0.2, 0.1, 12
    event = Event(1, noise, noise, client, "poisson", level="record", steps=steps, batch=batch)
    found = model_epsilon(rounds(event, count), 1e-4)
    one = from_gaussian_mechanism(noise, sampling_prob=batch, value_discretization_interval=1e-3)

    def delta(e):
        parts = [one.self_compose(k * steps).get_delta_for_epsilon(e) for k in range(1, count + 1)]
        return float(np.dot(stats.binom.pmf(np.arange(1, count + 1), count, client), parts))

    if fixed:  # a replaced record moves twice as far, in both directions at once
        replaced = model_epsilon(rounds(replace(event, batches="fixed"), count), 1e-4)
        halved = model_epsilon(rounds(replace(event, noise=noise / 2, share=noise / 2), count), 1e-4)
        assert halved <= replaced <= 1.2 * halved
    else:
        assert delta(found) == pytest.approx(1e-4, rel=2e-3)


def test_a_client_that_is_always_drawn_leaves_plain_batches():
    for accountant in ACCOUNTANTS:
        always = rounds(replace(RECORD, rate=1.0, steps=4), 5)
        assert model_epsilon(always, DELTA, accountant) == epsilon([Release(1.08, BATCH, 20)], DELTA, accountant)
        whole = rounds(replace(RECORD, rate=1.0, batch=1.0, steps=4), 5)
        assert model_epsilon(whole, DELTA, accountant) == epsilon([Release(1.08, 1.0, 20)], DELTA, accountant)


def test_steps_drawn_together_reduce_to_the_product_for_one_step():
    """Both directions, through the general pair: the sampled Gaussian of the product rate."""
    for noise, batch, client, count in ((1.08, BATCH, CLIENT, 300), (0.7, 0.5, 0.3, 4), (2.0, 1.0, 0.1, 30)):
        general = epsilon([Release(noise, batch, count, False, 1, client, noticed=False)], DELTA)
        product = epsilon([Release(noise, batch * client, count)], DELTA)
        assert general == pytest.approx(product, rel=5e-3)
        assert general >= product * (1 - 1e-4)


def test_steps_drawn_together_against_the_densities():
    """One round of two steps, on a plain grid of both outputs."""
    noise, batch, client, delta = 1.1, 0.4, 0.2, 1e-3
    z = np.linspace(-9 * noise, 9 * noise + 1, 1500)
    null = stats.norm.pdf(z, 0, noise)
    one = (1 - batch) * null + batch * stats.norm.pdf(z, 1, noise)
    absent = np.outer(null, null)
    present = (1 - client) * absent + client * np.outer(one, one)
    cell = (z[1] - z[0]) ** 2
    found = epsilon([Release(noise, batch, 1, False, 2, client, noticed=False)], delta)
    told = [np.maximum(a - math.exp(found) * b, 0).sum() * cell for a, b in ((present, absent), (absent, present))]
    assert max(told) == pytest.approx(delta, rel=1e-2)
    assert found < epsilon([Release(noise, batch, 1, False, 2, client)], delta)


def mixture(z, client, batch, noise, shift, present):
    """The density of one round's model: the client's other records show as `shift`, the record adds 1."""
    inside = stats.norm.pdf(z, shift, noise)
    if present:
        inside = (1 - batch) * inside + batch * stats.norm.pdf(z, shift + 1, noise)
    return (1 - client) * stats.norm.pdf(z, 0, noise) + client * inside


def hockey_stick(e, *, client, batch, noise, shift):
    z = np.arange(-8 * noise, shift + 1 + 8 * noise, noise / 400)
    one, other = (mixture(z, client, batch, noise, shift, present) for present in (True, False))
    return max(float(np.maximum(a - math.exp(e) * b, 0).sum()) * noise / 400 for a, b in ((one, other), (other, one)))


@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0, 30.0])
def test_the_clients_chance_does_not_multiply_where_the_model_shows_who_took_part(shift):
    """One round, by the densities themselves: the stated epsilon holds whatever the other records add, and the
    product of the two probabilities does not once they show."""
    world = {"client": 0.05, "batch": 0.4, "noise": 0.7}
    event = Event(1, 0.7, 0.7, 0.05, "fixed", level="record", batch=0.4)
    stated, assumed = model_epsilon([event], 1e-3), unnoticed_epsilon([event], 1e-3)
    assert hockey_stick(stated, **world, shift=shift) <= 1e-3 * (1 + 1e-6)
    if shift == 0:
        assert hockey_stick(assumed, **world, shift=shift) == pytest.approx(1e-3, rel=1e-2)
    if shift == 30:
        assert hockey_stick(stated, **world, shift=shift) == pytest.approx(1e-3, rel=1e-2)
        assert hockey_stick(assumed, **world, shift=shift) > 2e-3


def lower_bound(present, absent, delta):
    """A lower bound on epsilon that holds with 99.9 %: log((hits - delta) / false alarms) of one threshold.

    The threshold comes from one half of the runs, the rates (Clopper and Pearson) from the other.
    """
    half = len(present) // 2

    def bound(yes, no, threshold, sure):
        hits, alarms, runs = (yes > threshold).sum(), (no > threshold).sum(), len(yes)
        low = stats.beta.ppf(sure, hits, runs - hits + 1) if hits else 0.0
        high = stats.beta.ppf(1 - sure, alarms + 1, runs - alarms)
        return math.log(max(low - delta, 1e-300) / high)

    levels = np.quantile(present[:half], np.linspace(0.01, 0.999, 200))
    best = max(levels, key=lambda level: bound(present[:half], absent[:half], level, 5e-4))
    return bound(present[half:], absent[half:], best, 5e-4)


def played(rng, runs, rounds, *, client, batch, noise, shift, present):
    """The log-likelihood ratio of the released models, with the record in its client's data or not."""
    joined = rng.random((runs, rounds)) < client
    inside = rng.random((runs, rounds)) < batch
    models = joined * (shift + present * inside) + noise * rng.standard_normal((runs, rounds))
    ratio = mixture(models, client, batch, noise, shift, True) / mixture(models, client, batch, noise, shift, False)
    return np.log(ratio).sum(axis=1)


@pytest.mark.parametrize("shift", [0.0, 20.0])
def test_a_measured_distinguisher_stays_below_the_stated_epsilon(shift):
    world = {"client": 0.2, "batch": 0.3, "noise": 0.6, "shift": shift}
    rng = np.random.default_rng(1)
    present, absent = (played(rng, 150_000, 4, **world, present=p) for p in (True, False))
    measured = lower_bound(present, absent, 0.01)
    events = rounds(Event(1, 0.6, 0.6, 0.2, "fixed", level="record", batch=0.3), 4)
    assert measured <= model_epsilon(events, 0.01)
    assert measured > 0.5 * unnoticed_epsilon(events, 0.01)  # the distinguisher is no weak one
    if shift:
        assert measured > 1.1 * unnoticed_epsilon(events, 0.01)
        assert measured > 0.7 * model_epsilon(events, 0.01)


def downsampled(common, rare, rng):
    """The clipped sum of a batch (S = 1) after both classes were cut to the size of the smaller one."""
    size = min(len(common), len(rare))
    return sum(rng.permutation(common)[:size]) + sum(rng.permutation(rare)[:size])


def test_downsampling_needs_twice_the_sensitivity():
    """One record of the rarer class, and a partner that comes and goes with it: told apart better than S allows."""
    rng, noise, count, runs = np.random.default_rng(2), 4.0, 8, 100_000
    with_record, without = (downsampled([1.0, 1.0, 1.0], rare, rng) for rare in ([1.0], []))
    assert with_record - without == 2
    present, absent = (
        (value + noise * rng.standard_normal((runs, count))).sum(axis=1) for value in (with_record, without)
    )
    measured = lower_bound(present, absent, DELTA)
    events = rounds(Event(1, noise, noise, 1.0, "fixed", level="record", reach=2), count)
    naive = model_epsilon([replace(e, reach=1) for e in events], 0.01)
    assert lower_bound(present, absent, 0.01) > 1.2 * naive
    assert measured <= model_epsilon(events, DELTA)
    assert lower_bound(present, absent, 0.01) <= model_epsilon(events, 0.01)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_epsilon_grows_with_all_that_a_record_goes_through(accountant):
    def stated(**change):
        return model_epsilon(rounds(replace(RECORD, **change), 30), DELTA, accountant)

    for name, values in {
        "steps": (1, 2, 7),
        "batch": (0.1, 0.2, BATCH, 1.0),
        "rate": (0.001, CLIENT, 0.5, 1.0),
        "reach": (1, 2, 4),
    }.items():
        found = [stated(**{name: value}) for value in values]
        assert all(a < b for a, b in pairwise(found)), name


@pytest.mark.parametrize(("steps", "batch"), [(1, BATCH), (5, 0.05), (2, 1.0)])
def test_the_accountants_are_ordered(steps, batch):
    events = rounds(replace(RECORD, steps=steps, batch=batch), 50)
    moments, rdp, pld = (model_epsilon(events, DELTA, a) for a in ACCOUNTANTS)
    assert pld <= rdp * (1 + 1e-3) <= moments * (1 + 1e-2)


def test_how_the_clients_are_drawn_does_not_matter_and_how_batches_are_does():
    poisson, fixed = (rounds(replace(RECORD, sampling=s), 20) for s in ("poisson", "fixed"))
    assert model_epsilon(poisson, DELTA) == model_epsilon(fixed, DELTA)
    release = releases([replace(RECORD, batches="fixed", reach=2, steps=3)])
    assert release == (Release(1.08 / 4, BATCH, 1, True, 3, CLIENT),)
    assert relation("poisson", "record") == "add or remove one record of one client"
    assert relation("fixed", "record") == "replace one record of one client"


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_calibration_keeps_to_the_budget_and_a_step_less_breaks_it(accountant):
    known = {"batch": 0.3, "steps": 2, "reach": 2}
    noise = noise_for(2.0, DELTA, 0.05, 20, accountant, **known)
    assert spent(noise, DELTA, 0.05, 20, accountant, **known) <= 2
    assert spent(noise - 0.001, DELTA, 0.05, 20, accountant, **known) > 2
    events = rounds(Event(1, noise, noise, 0.05, "poisson", level="record", **known), 20)
    assert model_epsilon(events, DELTA, accountant) == spent(noise, DELTA, 0.05, 20, accountant, **known)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"level": "person"}, "level=person is not known"),
        ({"steps": 0}, "steps=0 must"),
        ({"batch": 0.0}, "batch=0 must"),
        ({"batch": 1.5}, "batch=1.5 must"),
        ({"reach": 0}, "reach=0 must"),
        ({"batches": "often"}, "sampling=often is not known"),
        ({"share": 0.1}, "share=0.1 must be noise=1.08"),
        ({"level": "client"}, "describe records"),
    ],
)
def test_a_wrong_event_is_refused(change, sentence):
    with pytest.raises(Mistake, match=sentence):
        replace(RECORD, **change)


def test_one_ledger_has_one_level():
    with pytest.raises(Mistake, match="level=client and record are mixed"):
        model_epsilon([RECORD, Event(2, 1.0, 0.1, 0.1, "fixed")], DELTA)
    assert model_epsilon([replace(RECORD, noise=0.0, share=0.0)], DELTA) == math.inf


@pytest.mark.parametrize("noise", [0.315, 0.5, 3.0])
@pytest.mark.parametrize("client", [0.01, 0.5, 0.75])
def test_large_chances_and_little_noise_have_an_epsilon(noise, client):
    """Deltas that rounding leaves a hair above 1 are 1."""
    event = Event(1, noise, noise, client, "fixed", level="record", batch=1.0, steps=2)
    assert 0 < unnoticed_epsilon([event], DELTA) <= model_epsilon([event], DELTA) < math.inf
