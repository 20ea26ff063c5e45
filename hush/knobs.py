"""What a scheme of the catalogue lets the user set."""

from dataclasses import dataclass
from typing import Literal

from hush.coordinates import Coordinates, TopK, Vote
from hush.downlink import Coarse, Downlink, Exact
from hush.errors import Mistake
from hush.sampling import Fixed, Sampling
from hush.stages import AdaptiveClip, Clip
from hush.steps import Average, Momentum, Recovery
from hush.trainers import Balance, Divisor, Dpsgd, Sgd


@dataclass(frozen=True)
class Knobs:
    """What a catalogue entry lets the user set. Defaults are the first paper's for Fashion-MNIST.

    Without `sampling`: 100 of 6,000 clients, by Poisson sampling where a guarantee stands on it. A private scheme has
    no default for its noise. `epochs` instead of `steps` is passes over the client's own rows; a `batch` of None is all
    of them. `gamma`: the step of schemes that send signs. `balance`: what a trainer does about a rare class; `share`:
    its public share, for record-level trainers; `batches`: how these draw; `divisor`: what they divide a sum by.
    `places`, `bound`, `follow`: two-bit's p and m. `bits`: what a weight takes on the wire, where that can be chosen.
    `chunks`, `seed` (a public one): compressive sensing. `momentum`, `server_rate`: the server's step, where it moves
    by the mean; without them it is the mean itself. `down`: the bits of a weight on its way to the clients, 32 if not
    given. `average`: what the released model keeps of the one before. `directions`, `order`: the public features of
    pictures that a house scheme trains on, see hush.features.
    """

    sampling: Sampling | None = None
    ratio: float = 0.005
    rate: float = 0.215
    steps: int | None = 5
    epochs: int | None = None
    batch: int | None = 10
    probe: int = 5
    clip: Clip | AdaptiveClip = AdaptiveClip()
    noise: float | None = None
    vote: float | None = None
    gamma: float = 0.001
    balance: Balance = "none"
    share: float | None = None
    batches: Literal["poisson", "fixed"] = "poisson"
    divisor: Divisor = "public"
    places: int = 32
    bound: float = 1.0
    follow: bool = False
    bits: int | None = None
    chunks: int = 200
    momentum: float | None = None
    server_rate: float | None = None
    average: float = 0.0
    down: int | None = None
    directions: int | None = None
    order: int = 1
    seed: int = 0

    def sgd(self, free: bool = False) -> Sgd:
        """Local training; `free` lets weights train that do not travel."""
        return Sgd(self.rate, None if self.epochs else self.steps, self.batch, free, self.epochs, self.balance)

    def downlink(self) -> Downlink:
        """How the weights travel to the clients."""
        return Exact() if self.down in (None, Exact.bits) else Coarse(self.down)

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
        if not isinstance(self.clip, Clip):
            raise Mistake("records are clipped at a fixed bound: give clip as a number")
        bound, drawn = self.clip.bound, (self.batches, self.balance, self.share, self.divisor)
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
