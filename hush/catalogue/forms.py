"""What an entry of the catalogue is, and how its private form is built around it."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from hush.catalogue.values import Settings
from hush.core.plain import Average
from hush.core.protocols import Sampling, Stage
from hush.core.scheme import Scheme
from hush.errors import Mistake
from hush.parts.blocks import Blocks, Interleave
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import Clip, CorrelatedNoise, Noise, PoissonBinomial, ServerNoise
from hush.privacy.events import Level


@dataclass(frozen=True)
class Protection:
    """How clients are protected, in words, and the stage behind the clip that does it."""

    words: str
    stage: Callable[[Settings], Stage]


def _correlated(k: Settings) -> CorrelatedNoise:
    drawn = k.cohorts()
    if drawn.turns is None:
        raise Mistake(
            f"sampling={drawn.kind} has no turns, and noise that later rounds take back counts on them: take once, or"
            " a scheme with other noise, as hush"
        )
    return CorrelatedNoise(k.multiplier(), *drawn.turns)


def _coins(k: Settings) -> PoissonBinomial:
    # A cohort of random size must not be revealed by the number of coins: spare places are filled with fair ones.
    random = k.sampling is None or k.sampling.kind != "fixed"
    return PoissonBinomial(k.multiplier(), 2 if k.bits is None else k.bits, spare=6.0 if random else 0.0)


SHARES = Protection("clipped, noise in shares", lambda k: Noise(k.multiplier()))
TRUSTED = Protection("clipped, noise by the server", lambda k: ServerNoise(k.multiplier()))
CORRELATED = Protection("clipped, noise by the server that later rounds take back", _correlated)
COINS = Protection("clipped, biased coins", _coins)


_BESIDE = ("select", "quantile", "share")  # which reach the vote, the clip and the loss past the function
_ANY = Settings(sampling=Fixed(100), noise=1.0, clip=Clip(1.0))


@dataclass(frozen=True)
class Entry:
    """A scheme by name: where it comes from, and the function that builds it. What it protects, the scheme says.

    protection: the clip and the noise that are put behind all stages of the built scheme; None: it is as it was built.
    usual: settings of its paper, where they differ from the declared ones; `clients` is the number of nodes there.
    featured: it trains on public features of the data in place of the data. tables: what is usual there for rows that
    are no images: their columns have no public basis, and may say the same.
    """

    name: str
    paper: str
    build: Callable[[Settings], Scheme]
    protection: Protection | None = None
    usual: Mapping[str, Any] = field(default_factory=dict)
    featured: bool = False
    tables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def level(self) -> Level | None:
        """Whom its noise protects."""
        return self.example.level

    @property
    def published(self) -> bool:
        """Whether it is a paper's."""
        return self.paper not in ("hush", "your own")

    @property
    def private(self) -> bool:
        """Whether it has a guarantee."""
        return self.level is not None

    @property
    def settings(self) -> dict[str, Any]:
        """The usual settings that a task of any kind can take: a balance needs two classes."""
        return {key: value for key, value in self.usual.items() if key not in ("balance", "clients", "rounds")}

    def usually(self, given: Container[str], rounds: int | None = None) -> dict[str, Any]:
        """The same beside what is given: who sets local steps has no ridge solve, nor another number of passes.

        Blocks follow the rounds, so that each has as many visits as usual, and a client sends about as much.
        """
        found = self.settings
        if "steps" in given or "epochs" in given:
            found |= {"steps": None, "epochs": None, "ridge": None}
        if rounds is not None and "blocks" in found:
            found["blocks"] = max(1, found["blocks"] * rounds // self.usual["rounds"])
        return found

    @property
    def summary(self) -> str:
        """What travels up and down, and what is protected."""
        text = (self.build.__doc__ or "").strip()
        if self.protection is not None:
            text = text.replace("nothing is protected", f"each client is protected ({self.protection.words})")
        return text

    @cached_property
    def example(self) -> Scheme:
        """The scheme with any noise and bound, for what does not depend on them."""
        return self._built(replace(_ANY, sampling=self.sampling))

    @cached_property
    def sampling(self) -> Sampling:
        """Who takes part where nobody says: 100 of 6,000 clients, by Poisson sampling where clients are protected."""
        usual: Sampling | None = self.usual.get("sampling")
        if usual is not None:
            return usual
        return Poisson(100 / 6000) if self._built(_ANY).level == "client" else Fixed(100)

    @cached_property
    def _read(self) -> frozenset[str]:
        """The settings that the function reads."""
        read: set[str] = set()

        class Reading(Settings):
            def __getattribute__(self, name: str) -> Any:
                read.add(name)
                return super().__getattribute__(name)

        known = {one.name: getattr(_ANY, one.name) for one in fields(Settings)}
        self._built(Reading(**{**known, "sampling": self.sampling}))
        return frozenset(read)

    def has(self, setting: str) -> bool:
        """Whether the scheme listens to this setting: the function reads it, or a part says so where none could."""
        if setting == "epochs" and self.level == "record":
            return False  # records are charged by the step: epochs are read to be refused
        if setting not in _BESIDE:
            return setting in self._read
        scheme = self.example
        own = (*scheme.trainer.settings, *scheme.coordinates.settings, *scheme.step.settings)
        return setting in own or any(setting in stage.settings for stage in scheme.stages)

    @property
    def pooled(self) -> bool:
        """Whether all data lie in one place."""
        return self.example.baseline and not self.example.standalone

    def scheme(self, settings: Settings) -> Scheme:
        """The scheme. A stage that cannot stand in front of the clip is refused by the Spec of the clip."""
        return self._built(replace(settings, sampling=settings.sampling or self.sampling))

    def _built(self, settings: Settings) -> Scheme:
        base = self.build(settings)
        if base.step == Average():
            base = replace(base, step=settings.step())
        if settings.blocks > 1:
            together: Interleave = "columns" if self.featured else "weights"
            base = replace(base, coordinates=Blocks(settings.blocks, base.coordinates, together))
        if settings.average:
            base = replace(base, average=settings.average)
        if self.featured:
            base = replace(base, featured=True)
        if settings.downlink_bits is not None:
            base = replace(base, downlink=settings.downlink())
        if self.protection is None:
            return base
        return replace(base, stages=(*base.stages, settings.clip, self.protection.stage(settings)))
