"""hush privacy: epsilon of a noise, noise of an epsilon, and the card of a run."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from hush.errors import Mistake
from hush.privacy.accountants import epsilon as compose
from hush.privacy.calibration import noise_for, spent
from hush.privacy.card import render
from hush.privacy.events import Sampling, check_sampling, relation, repeated
from hush.privacy.ledger import Ledger
from hush.privacy.views import stated

app = typer.Typer(
    help="Epsilon of a noise, noise of an epsilon, and the privacy card of a run.",
    no_args_is_help=True,
    add_completion=False,
)

Rate = Annotated[str, typer.Option("--rate", help="Chance of being drawn for a round: 0.01 or 1/60.")]
Rounds = Annotated[int, typer.Option("--rounds", help="Number of rounds.")]
Delta = Annotated[float, typer.Option("--delta", help="Delta, below one over the population.")]
Accountant = Annotated[str, typer.Option("--accountant", help="pld (tight), rdp, or moments (the papers').")]
Cohorts = Annotated[str, typer.Option("--sampling", help="poisson (add or remove one) or fixed (replace one).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def epsilon(
    noise: Annotated[float, typer.Option("--noise", help="Noise multiplier sigma of the sum.")],
    rate: Rate,
    rounds: Rounds,
    delta: Delta,
    accountant: Accountant = "pld",
    sampling: Cohorts = "poisson",
    as_json: Json = False,
) -> None:
    """Epsilon against an observer of all released models who does not know the cohorts."""
    q, how = _rate(rate), _sampling(sampling)
    value = stated(spent(noise, delta, q, rounds, accountant, how))
    answer: dict[str, Any] = {"epsilon": value, **_common(delta, accountant, q, rounds, how), "noise": noise}
    if how == "fixed" and accountant == "pld":
        worst = repeated(noise, q, rounds, how, proven=False)
        answer["epsilon_worst_known"] = stated(compose([worst], delta))
    if as_json:
        print(json.dumps(answer))
        return
    print(f"epsilon {_shown(value)} at delta {delta:g}, {accountant}: model view, {relation(how)}")
    if "epsilon_worst_known" in answer:
        print(f"a proven bound; the worst case known has {_shown(answer['epsilon_worst_known'])}")


@app.command()
def noise(
    epsilon: Annotated[float, typer.Option("--epsilon", help="Privacy budget.")],
    rate: Rate,
    rounds: Rounds,
    delta: Delta,
    accountant: Accountant = "pld",
    sampling: Cohorts = "poisson",
    as_json: Json = False,
) -> None:
    """The smallest noise multiplier (in thousandths, rounded up) that keeps to a budget."""
    q, how = _rate(rate), _sampling(sampling)
    sigma = noise_for(epsilon, delta, q, rounds, accountant, how)
    value = spent(sigma, delta, q, rounds, accountant, how)
    if as_json:
        print(json.dumps({"noise": sigma, "epsilon": value, **_common(delta, accountant, q, rounds, how)}))
        return
    against = f"at delta {delta:g}, {accountant}: model view, {relation(how)}"
    print(f"noise {sigma:.3f} gives epsilon {_shown(value)} {against}")


@app.command()
def card(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    as_json: Json = False,
) -> None:
    """The one-page privacy statement of a run."""
    ledger = Ledger.load(run / "privacy.json")
    if ledger.card is None:
        raise Mistake(f"{run} has no card yet: let the run finish, or go on with --resume")
    try:
        page = render(ledger.card)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Mistake(f"{run} holds a card that cannot be read: restore privacy.json from a copy") from None
    print(json.dumps(ledger.card) if as_json else page, end="\n" if as_json else "")


def _common(delta: float, accountant: str, rate: float, rounds: int, sampling: Sampling) -> dict[str, Any]:
    return {
        "delta": delta,
        "accountant": accountant,
        "rate": rate,
        "rounds": rounds,
        "sampling": sampling,
        "view": "model",
        "relation": relation(sampling),
    }


def _rate(text: str) -> float:
    try:
        if len(text) > 40 or len(text.lower().partition("e")[2]) > 3:
            raise ValueError(text)  # a fraction of a huge power of ten would take for ever
        return float(Fraction(text.strip()))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise Mistake(f"rate={text} is not a number: write 0.01 or 1/60") from None


def _sampling(text: str) -> Sampling:
    check_sampling(text)
    return cast(Sampling, text)


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}"
