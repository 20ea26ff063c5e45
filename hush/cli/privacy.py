"""hush privacy: epsilon of a noise, noise of an epsilon, and the card of a run."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from hush.errors import Mistake
from hush.privacy.accountants import epsilon as compose
from hush.privacy.calibration import noise_for, spent
from hush.privacy.card import render
from hush.privacy.events import Event, Level, Sampling, check_sampling, relation, repeated
from hush.privacy.ledger import Ledger
from hush.privacy.views import paper_epsilon, stated, unnoticed_epsilon

app = typer.Typer(
    help="Epsilon of a noise, noise of an epsilon, and the privacy card of a run.",
    no_args_is_help=True,
    add_completion=False,
)

Rate = Annotated[str, typer.Option("--rate", help="Chance of being drawn for a round: 0.01 or 1/60.")]
Rounds = Annotated[int, typer.Option("--rounds", help="Number of rounds.")]
Delta = Annotated[float, typer.Option("--delta", help="Delta, below one over the population.")]
Accountant = Annotated[str, typer.Option("--accountant", help="pld (tight), rdp, or moments (the papers').")]
Cohorts = Annotated[
    str,
    typer.Option("--sampling", help="poisson (add or remove one) or fixed (replace one); for records, of the batches."),
]
BatchRate = Annotated[
    str | None,
    typer.Option("--batch-rate", help="For records: chance to be in a batch of their client; --rate is the client's."),
]
Steps = Annotated[int, typer.Option("--steps", help="For records: steps of a client in one round.")]
Downsampling = Annotated[
    bool, typer.Option("--downsampling", help="For records: batches are balanced by leaving records out.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


_OWN = (
    "the rate is taken as the record's own chance in every step; a client that is drawn, and shows in the model, does"
    " not multiply with it: give --batch-rate as well"
)


@dataclass(frozen=True)
class _Question:
    """What both commands are asked about."""

    rate: float
    rounds: int
    delta: float
    accountant: str
    sampling: Sampling
    batch: float | None
    steps: int
    reach: int

    @property
    def level(self) -> Level:
        return "client" if (self.batch, self.steps, self.reach) == (None, 1, 1) else "record"

    @property
    def records(self) -> dict[str, Any]:
        return {"batch": self.batch, "steps": self.steps, "reach": self.reach}

    def spent(self, noise: float) -> float:
        return spent(noise, self.delta, self.rate, self.rounds, self.accountant, self.sampling, **self.records)

    def events(self, noise: float) -> list[Event]:
        """The rounds as the ledger of a run has them."""
        batch, client = (self.rate, 1.0) if self.batch is None else (self.batch, self.rate)
        event = Event(
            1, noise, noise, client, "poisson", 0.0, "update", "record", self.steps, batch, self.reach, self.sampling
        )
        return [replace(event, round=number) for number in range(1, self.rounds + 1)]

    def common(self) -> dict[str, Any]:
        found = {
            "delta": self.delta,
            "accountant": self.accountant,
            "rate": self.rate,
            "rounds": self.rounds,
            "sampling": self.sampling,
            "view": "model",
            "relation": relation(self.sampling, self.level),
        }
        if self.level == "record":
            found |= {"level": "record", "batch_rate": self.batch, "steps": self.steps, "reach": self.reach}
        return found

    def words(self) -> str:
        return f"at delta {self.delta:g}, {self.accountant}: model view, {relation(self.sampling, self.level)}"


@app.command()
def epsilon(
    noise: Annotated[float, typer.Option("--noise", help="Noise multiplier sigma of the sum.")],
    rate: Rate,
    rounds: Rounds,
    delta: Delta,
    accountant: Accountant = "pld",
    sampling: Cohorts = "poisson",
    batch_rate: BatchRate = None,
    steps: Steps = 1,
    downsampling: Downsampling = False,
    as_json: Json = False,
) -> None:
    """Epsilon against an observer of all released models who does not know the cohorts."""
    asked = _asked(rate, rounds, delta, accountant, sampling, batch_rate, steps, downsampling)
    value = stated(asked.spent(noise))
    answer: dict[str, Any] = {"epsilon": value, **asked.common(), "noise": noise}
    if asked.sampling == "fixed" and accountant == "pld":
        worst = repeated(noise, asked.rate, rounds, "fixed", proven=False, **asked.records)
        answer["epsilon_worst_known"] = stated(compose([worst], delta))
    if asked.level == "record":
        events, drawn = asked.events(noise), asked.batch is not None and asked.rate < 1
        if drawn:
            answer["epsilon_unnoticed"] = stated(unnoticed_epsilon(events, delta, accountant))
        if drawn or asked.reach > 1:
            answer["epsilon_paper"] = stated(paper_epsilon(events, delta))
    if as_json:
        print(json.dumps(answer))
        return
    print(f"epsilon {_shown(value)} {asked.words()}")
    if asked.level == "record" and asked.batch is None:
        print(_OWN)
    if "epsilon_worst_known" in answer:
        print(f"a proven bound; the worst case known has {_shown(answer['epsilon_worst_known'])}")
    if asked.reach > 1:
        print("batches balanced by leaving records out: two clipped gradients change, so the noise counts half")
    if "epsilon_unnoticed" in answer:
        print(f"if no model showed whether the client took part (not proven): {_shown(answer['epsilon_unnoticed'])}")
    if "epsilon_paper" in answer:
        counted = "two gradients as one" if asked.reach > 1 else "a record at the product of both rates"
        print(f"the paper's, by moments, which counts {counted}: {_shown(answer['epsilon_paper'])}")


@app.command()
def noise(
    epsilon: Annotated[float, typer.Option("--epsilon", help="Privacy budget.")],
    rate: Rate,
    rounds: Rounds,
    delta: Delta,
    accountant: Accountant = "pld",
    sampling: Cohorts = "poisson",
    batch_rate: BatchRate = None,
    steps: Steps = 1,
    downsampling: Downsampling = False,
    as_json: Json = False,
) -> None:
    """The smallest noise multiplier (in thousandths, rounded up) that keeps to a budget."""
    asked = _asked(rate, rounds, delta, accountant, sampling, batch_rate, steps, downsampling)
    sigma = noise_for(epsilon, delta, asked.rate, rounds, accountant, asked.sampling, **asked.records)
    value = asked.spent(sigma)
    if as_json:
        print(json.dumps({"noise": sigma, "epsilon": value, **asked.common()}))
        return
    print(f"noise {sigma:.3f} gives epsilon {_shown(value)} {asked.words()}")
    if asked.level == "record" and asked.batch is None:
        print(_OWN)


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


def _asked(
    rate: str,
    rounds: int,
    delta: float,
    accountant: str,
    sampling: str,
    batch_rate: str | None,
    steps: int,
    downsampling: bool,
) -> _Question:
    check_sampling(sampling)
    batch = None if batch_rate is None else _rate(batch_rate, "batch-rate")
    if batch is not None and not 1e-9 <= batch <= 1:
        raise Mistake(f"batch-rate={batch_rate} must be in [1e-9, 1]: give batch size / records of the smallest client")
    reach = 2 if downsampling else 1
    return _Question(_rate(rate, "rate"), rounds, delta, accountant, cast(Sampling, sampling), batch, steps, reach)


def _rate(text: str, name: str) -> float:
    try:
        if len(text) > 40 or len(text.lower().partition("e")[2]) > 3:
            raise ValueError(text)  # a fraction of a huge power of ten would take for ever
        return float(Fraction(text.strip()))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise Mistake(f"{name}={text} is not a number: write 0.01 or 1/60") from None


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}"
