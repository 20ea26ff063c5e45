"""hush privacy: epsilon of a noise, noise of an epsilon, integer noise, and the card of a run."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hush.cli.card import card
from hush.errors import Mistake

# What computes is imported by the command that needs it: help answers at once.
if TYPE_CHECKING:
    from hush.privacy.events import BatchSampling, Event, Level
    from hush.privacy.grids import NoiseKind

app = typer.Typer(
    help="Epsilon of a noise, noise of an epsilon, the same in integers, and the privacy card of a run.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(card)

Rate = Annotated[str, typer.Option("--rate", help="Probability of being drawn for a round: 0.01 or 1/60.")]
Rounds = Annotated[int, typer.Option("--rounds", help="Number of rounds.")]
Delta = Annotated[float, typer.Option("--delta", help="Delta, below one over the population.")]
Accountant = Annotated[str, typer.Option("--accountant", help="pld (tight), rdp, or moments (the papers').")]
Cohorts = Annotated[
    str,
    typer.Option("--sampling", help="poisson (add or remove one) or fixed (replace one); for records, of the batches."),
]
BatchRate = Annotated[
    str | None,
    typer.Option(
        "--batch-rate", help="For records: probability to be in a batch of their client; --rate is the client's."
    ),
]
Steps = Annotated[int, typer.Option("--steps", help="For records: steps of a client in one round.")]
Downsampling = Annotated[
    bool, typer.Option("--downsampling", help="For records: batches are balanced by leaving records out.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


_OWN = (
    "the rate is taken as the record's own in every step; a client that is drawn, and shows in the model, does"
    " not multiply with it: give --batch-rate as well"
)


@dataclass(frozen=True)
class _Question:
    """What both commands are asked about."""

    rate: float
    rounds: int
    delta: float
    accountant: str
    sampling: "BatchSampling"
    batch: float | None
    steps: int
    reach: int

    @property
    def level(self) -> "Level":
        return "client" if (self.batch, self.steps, self.reach) == (None, 1, 1) else "record"

    @property
    def records(self) -> dict[str, Any]:
        return {"batch": self.batch, "steps": self.steps, "reach": self.reach}

    def spent(self, noise: float) -> float:
        from hush.privacy.calibration import spent

        return spent(noise, self.delta, self.rate, self.rounds, self.accountant, self.sampling, **self.records)

    def events(self, noise: float) -> "list[Event]":
        """The rounds as the ledger of a run has them."""
        from hush.privacy.events import Event

        batch, client = (self.rate, 1.0) if self.batch is None else (self.batch, self.rate)
        event = Event(
            1, noise, noise, client, "poisson", 0.0, "update", "record", self.steps, batch, self.reach, self.sampling
        )
        return [replace(event, round=number) for number in range(1, self.rounds + 1)]

    def common(self) -> dict[str, Any]:
        from hush.privacy.events import relation

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
        from hush.privacy.events import relation

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
    from hush.privacy.accountants import epsilon as compose
    from hush.privacy.events import repeated
    from hush.privacy.shown import shown
    from hush.privacy.views import paper_epsilon, stated, unnoticed_epsilon

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
    print(f"epsilon {shown(value)} {asked.words()}")
    if asked.level == "record" and asked.batch is None:
        print(_OWN)
    if "epsilon_worst_known" in answer:
        print(f"a proven bound; the worst case known has {shown(answer['epsilon_worst_known'])}")
    if asked.reach > 1:
        print("batches balanced by leaving records out: two clipped gradients change, so the noise counts half")
    if "epsilon_unnoticed" in answer:
        print(f"if no model showed whether the client took part (not proven): {shown(answer['epsilon_unnoticed'])}")
    if "epsilon_paper" in answer:
        counted = "two gradients as one" if asked.reach > 1 else "a record at the product of both rates"
        print(f"the paper's, by moments, which counts {counted}: {shown(answer['epsilon_paper'])}")


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
    from hush.privacy.calibration import noise_for
    from hush.privacy.shown import shown

    asked = _asked(rate, rounds, delta, accountant, sampling, batch_rate, steps, downsampling)
    sigma = noise_for(epsilon, delta, asked.rate, rounds, accountant, asked.sampling, **asked.records)
    value = asked.spent(sigma)
    if as_json:
        print(json.dumps({"noise": sigma, "epsilon": value, **asked.common()}))
        return
    print(f"noise {sigma:.3f} gives epsilon {shown(value)} {asked.words()}")
    if asked.level == "record" and asked.batch is None:
        print(_OWN)


@app.command()
def integers(
    size: Annotated[int, typer.Option("--size", help="Numbers of an update.")],
    cohort: Annotated[int, typer.Option("--cohort", help="Clients of a sum, as many as there may be.")],
    rate: Rate,
    rounds: Rounds,
    delta: Delta,
    noise: Annotated[float | None, typer.Option("--noise", help="Noise multiplier sigma of the sum.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Privacy budget, in place of --noise.")] = None,
    floor: Annotated[int | None, typer.Option("--floor", help="The fewest clients that stay (all of them).")] = None,
    bits: Annotated[int | None, typer.Option("--bits", help="Bits of a number, 2 to 32.")] = None,
    rounding: Annotated[
        float | None, typer.Option("--rounding", help="In place of --bits: extra noise allowed from rounding (0.05).")
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help="skellam, or gaussian (discrete).")] = "skellam",
    sampling: Cohorts = "poisson",
    as_json: Json = False,
) -> None:
    """Grid, bits and epsilon of the noise of a secure sum, beside the published bound and a Gaussian's."""
    from hush.privacy.calibration import noise_for
    from hush.privacy.grids import rounded_norm, settle
    from hush.privacy.integers import published, shares
    from hush.privacy.lattice import matching, worth
    from hush.privacy.shown import shown
    from hush.privacy.views import stated

    asked = _asked(rate, rounds, delta, "pld", sampling, None, 1, False)
    if bits is not None and rounding is not None:
        raise Mistake(f"bits={bits} and rounding={rounding:g} exclude each other: give one of them")
    if (noise is None) == (epsilon is None):
        raise Mistake(f"noise={noise} and epsilon={epsilon} say nothing, or too much: give one of them")
    if noise is None:
        noise = noise_for(cast(float, epsilon), delta, asked.rate, rounds, "pld", asked.sampling)
    if not noise > 0:
        raise Mistake(f"noise={noise:g} must be positive: nothing is added, and nothing is hidden")
    least, whole = cohort if floor is None else floor, cast("NoiseKind", kind)
    grid = settle(size, cohort, least, noise, bits=bits, rounding=0.05 if rounding is None else rounding, kind=whole)
    bound = rounded_norm(grid.steps, size)
    added = matching(whole, noise, bound, least)
    counts = worth(whole, added, bound, least)
    continuous, noisy = replace(asked, accountant="rdp"), shares(whole, added, grid.steps, size, least)
    answer: dict[str, Any] = {
        "epsilon": stated(asked.spent(counts)),
        "epsilon_rdp": stated(continuous.spent(counts)),
        "epsilon_published": stated(published(noisy, delta, asked.rate, rounds, asked.sampling)),
        "epsilon_gaussian_rdp": stated(continuous.spent(noise)),
        **asked.common(),
        "noise": noise,
        "noise_added": added,
        "noise_counts": counts,
        **{"kind": kind, "size": size, "cohort": cohort, "floor": least, "l2": bound},
        **grid._asdict(),
    }
    if as_json:
        print(json.dumps(answer))
        return
    print(f"{grid.bits} bits a number; the bound has {grid.steps:g} steps, and {bound:.6g} after rounding")
    print(f"{kind} noise of {added:.4f} times that, in shares for {least} clients; rounding adds {grid.loss:.2%} to it")
    print(f"epsilon {shown(answer['epsilon'])} {asked.words()}; it counts as a multiplier of {counts:.4f}")
    rdp, theirs, smooth = (shown(answer[f"epsilon_{name}"], 4) for name in ("rdp", "published", "gaussian_rdp"))
    print(f"by rdp {rdp}, by the published bound {theirs}; Gaussian noise of {noise:g} has {smooth}")


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
    from hush.privacy.events import check_sampling

    check_sampling(sampling)
    batch = None if batch_rate is None else _rate(batch_rate, "batch-rate")
    if batch is not None and not 1e-9 <= batch <= 1:
        raise Mistake(f"batch-rate={batch_rate} must be in [1e-9, 1]: give batch size / records of the smallest client")
    reach = 2 if downsampling else 1
    return _Question(
        _rate(rate, "rate"), rounds, delta, accountant, cast("BatchSampling", sampling), batch, steps, reach
    )


def _rate(text: str, name: str) -> float:
    try:
        if len(text) > 40 or len(text.lower().partition("e")[2]) > 3:
            raise ValueError(text)  # a fraction of a huge power of ten would take for ever
        return float(Fraction(text.strip()))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise Mistake(f"{name}={text} is not a number: write 0.01 or 1/60") from None
