import pytest

from hush.errors import Mistake
from hush.privacy.accountants import ACCOUNTANTS
from hush.privacy.calibration import noise_for, spent
from hush.privacy.events import Event
from hush.privacy.views import model_epsilon


@pytest.mark.parametrize(
    ("rate", "rounds", "accountant", "expected"),
    [
        (1 / 60, 200, "pld", 1.225),
        (1 / 60, 200, "moments", 1.54),
        (100 / 5010, 100, "pld", 1.162),
        (100 / 5010, 100, "moments", 1.49),
    ],
)
def test_the_papers_noise(rate, rounds, accountant, expected):
    assert noise_for(1, 1e-5, rate, rounds, accountant) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
@pytest.mark.parametrize(("target", "rate", "rounds"), [(0.3, 0.1, 5), (2.0, 1.0, 3), (8.0, 0.02, 40)])
def test_the_budget_holds_and_a_step_less_breaks_it(accountant, sampling, target, rate, rounds):
    noise = noise_for(target, 1e-5, rate, rounds, accountant, sampling)
    assert spent(noise, 1e-5, rate, rounds, accountant, sampling) <= target
    assert spent(noise - 0.001, 1e-5, rate, rounds, accountant, sampling) > target


def test_slack_asks_for_more_noise_and_too_much_for_any():
    slack = 1e-8
    noise = noise_for(1, 1e-5, 0.05, 20, slack=slack)
    events = [Event(t, noise, 0.1, 0.05, "poisson", slack) for t in range(1, 21)]
    assert noise > noise_for(1, 1e-5, 0.05, 20)
    assert model_epsilon(events, 1e-5) <= 1
    with pytest.raises(Mistake, match="epsilon=1 is out of reach"):
        noise_for(1, 1e-5, 0.05, 20, slack=1e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"epsilon": 0}, "epsilon=0 must"),
        ({"epsilon": float("inf")}, "epsilon=inf must"),
        ({"delta": 1}, "delta=1 must"),
        ({"rate": 2}, "rate=2 must"),
        ({"rounds": 0}, "rounds=0 must"),
        ({"sampling": "often"}, "sampling=often"),
        ({"epsilon": 1e-5, "accountant": "moments"}, "epsilon=1e-05 is out of reach of moments"),
    ],
)
def test_mistakes(change, sentence):
    with pytest.raises(Mistake, match=sentence):
        noise_for(**{"epsilon": 1, "delta": 1e-5, "rate": 0.1, "rounds": 3, **change})


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
@pytest.mark.parametrize(
    ("target", "rate", "rounds"), [(1, 1 / 60, 200), (3, 60 / 179, 20), (50, 0.5, 3), (0.01, 0.01, 100), (2, 1.0, 3)]
)
def test_few_distributions_are_built(target, rate, rounds, sampling, monkeypatch):
    """Bisection takes 10 to 22 of them."""
    tried = []

    def counted(noise, *given, **named):
        tried.append(noise)
        return spent(noise, *given, **named)

    monkeypatch.setattr("hush.privacy.calibration.spent", counted)
    noise = noise_for(target, 1e-5, rate, rounds, "pld", sampling)
    assert len(tried) <= 7
    assert {noise, round(noise - 0.001, 3)} <= set(tried)
