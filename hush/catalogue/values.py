"""The settings of a scheme, each with a value, and the parts that they make."""

from dataclasses import dataclass
from typing import Literal

from hush.catalogue.settings import usual
from hush.core.plain import Average, Exact
from hush.core.protocols import Coordinates, Downlink, Recovery, Sampling
from hush.errors import Mistake
from hush.parts.coordinates import TopK, Vote
from hush.parts.downlink import Coarse
from hush.parts.sampling import Fixed
from hush.parts.stages import AdaptiveClip, Clip
from hush.parts.steps import Momentum
from hush.parts.trainers import Balance, Divisor, Dpsgd, Ridge, Sgd


@dataclass(frozen=True)
class Settings:
    """What a function of the catalogue builds a scheme from; meanings and defaults are declared in settings.py.

    Most defaults are the first paper's for Fashion-MNIST. Without `sampling`: 100 of 6,000 clients, by Poisson sampling
    where a guarantee stands on it. A private scheme has no default for its noise. A `batch` of None is all rows of a
    client. `vote`: the noise of the vote on the Top-K, without which public data select it. `seed`: the public one of
    compressive sensing.
    """

    sampling: Sampling | None = None
    ratio: float = usual("ratio")
    rate: float = usual("rate")
    steps: int | None = usual("steps")
    epochs: int | None = None
    batch: int | None = usual("batch")
    ridge: float | None = None
    probe: int = usual("probe")
    clip: Clip | AdaptiveClip = AdaptiveClip()
    noise: float | None = None
    vote: float | None = None
    gamma: float = usual("gamma")
    balance: Balance = usual("balance")
    share: float | None = None
    batches: Literal["poisson", "fixed"] = usual("batches")
    divisor: Divisor = usual("divisor")
    precision: int = usual("precision")
    bound: float = usual("bound")
    follow: bool = usual("follow")
    bits: int | None = None
    chunks: int = usual("chunks")
    momentum: float | None = None
    server_rate: float | None = None
    average: float = usual("average")
    blocks: int = usual("blocks")
    downlink_bits: int | None = None
    features: int | None = None
    scattering_order: int = usual("scattering_order")
    seed: int = 0

    def sgd(self, free: bool = False) -> Sgd:
        """Local training; `free` lets weights train that do not travel."""
        return Sgd(self.rate, None if self.epochs else self.steps, self.batch, free, self.epochs, self.balance)

    def linear(self) -> Ridge | Sgd:
        """Local training of a linear model: steps, or one solve."""
        return self.sgd() if self.ridge is None else Ridge(self.ridge, self.rate)

    def downlink(self) -> Downlink:
        """How the weights travel to the clients."""
        return Exact() if self.downlink_bits in (None, Exact.bits) else Coarse(self.downlink_bits)

    def multiplier(self) -> float:
        """The noise multiplier, which has no default."""
        if self.noise is None:
            raise Mistake("this scheme needs its noise multiplier: give noise=..., `hush privacy noise` finds one")
        return self.noise

    def dpsgd(self) -> Dpsgd:
        """Local training that protects each record."""
        noise = self.multiplier()
        if self.epochs is not None or self.steps is None:
            raise Mistake("epochs would make the steps differ by client, and with them the guarantee: give steps")
        if self.batch is None:
            raise Mistake("records are protected in batches of a public size: give batch")
        bound = self.clip.constant
        if bound is None:
            raise Mistake("records are clipped at a fixed bound: give clip as a number")
        drawn = (self.batches, self.balance, self.share, self.divisor)
        return Dpsgd(self.rate, self.steps, self.batch, bound, noise, *drawn)

    def step(self, rate: float = 1.0, keep: float = 0.0, sense: Recovery | None = None) -> Momentum | Average:
        """The server's step, with these where the user gives no other."""
        rate = rate if self.server_rate is None else self.server_rate
        keep = keep if self.momentum is None else self.momentum
        if sense is None and self.server_rate is None and self.momentum is None and not keep:
            return Average(rate)
        return Momentum(rate, keep, sense)

    def cohorts(self) -> Sampling:
        """Who takes part in a round."""
        return self.sampling or Fixed(100)

    def top(self) -> Coordinates:
        """The Top-K by public data or, with `vote`, by a vote of the clients with that noise."""
        if self.vote is None:
            return TopK(self.ratio, self.rate, self.probe)
        if self.batch is None:
            raise Mistake("a vote needs the size of its batches: give batch as a number")
        return Vote(self.ratio, self.rate, self.probe, self.batch, self.vote)
