"""Every published scheme by name: a few lines and a citation each."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hush.aggregators import BitVote
from hush.coordinates import Only, RandomK, TopK, Vote
from hush.errors import Mistake
from hush.knobs import Knobs
from hush.sampling import Fixed, Once, Poisson
from hush.scheme import Scheme
from hush.stages import (
    AdaptiveClip,
    Clip,
    Coins,
    CorrelatedNoise,
    Noise,
    Qsgd,
    Sense,
    ServerNoise,
    Sign,
    Stage,
    TopFeedback,
    TwoBit,
    Weigh,
)
from hush.steps import Average, Momentum, SignStep, Stay

A = "Aghapour, Ferdowsi, Saad: Two-Bit Aggregation (2021)"
C = "Kerkouche, Ács, Castelluccia, Genevès: Privacy-Preserving and Bandwidth-Efficient Federated Learning (2021)"
U = "Kerkouche, Ács, Castelluccia, Genevès: Constrained Differentially Private Federated Learning (2021)"


def fl_std(k: Knobs) -> Scheme:
    """All weights travel both ways; the mean is weighted by the number of records; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), stages=(Weigh(),))


def fl_top(k: Knobs) -> Scheme:
    """A fixed Top-K of the weights trains and travels both ways; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), k.top())


def fl_top_bis(k: Knobs) -> Scheme:
    """All weights train at the client, the fixed Top-K travels both ways; nothing is protected."""
    return Scheme(k.sgd(free=True), k.cohorts(), k.top())


def fl_basic(k: Knobs) -> Scheme:
    """A fresh random set trains and travels up, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), RandomK(k.ratio, fresh=True))


def fl_bas_2(k: Knobs) -> Scheme:
    """All weights train, a fresh random set travels up, the whole model down; nothing is protected."""
    return Scheme(k.sgd(free=True), k.cohorts(), RandomK(k.ratio, fresh=True))


def fl_bas_3(k: Knobs) -> Scheme:
    """One random set trains and travels both ways; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), RandomK(k.ratio, fresh=False))


def fl_bas_4(k: Knobs) -> Scheme:
    """All weights train, one random set travels both ways; nothing is protected."""
    return Scheme(k.sgd(free=True), k.cohorts(), RandomK(k.ratio, fresh=False))


def fl_head(k: Knobs) -> Scheme:
    """The last layer alone trains and travels both ways; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), Only())


def fl_sign(k: Knobs) -> Scheme:
    """One bit of each weight travels up, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), stages=(Sign(),), step=SignStep(k.gamma))


def fl_standard_dp(k: Knobs) -> Scheme:
    """All weights travel both ways; each record is protected (clipped and noised where it lies)."""
    return Scheme(k.dpsgd(), k.cohorts())


def fl_sign_dp(k: Knobs) -> Scheme:
    """One bit of each weight travels up, the whole model down; each record is protected (noised where it lies)."""
    return Scheme(k.dpsgd(), k.cohorts(), stages=(Sign(),), step=SignStep(k.gamma))


def fl_cs(k: Knobs) -> Scheme:
    """Random rows of a cosine transform travel up, the whole model down; the server rebuilds; nothing is protected."""
    sense = Sense(k.ratio, k.chunks, k.seed)
    return Scheme(k.sgd(), k.cohorts(), stages=(sense,), step=k.step(0.35, 0.9, sense))


def two_bit(k: Knobs) -> Scheme:
    """The sign and one bit of each weight travel up, the whole model down; nothing is protected."""
    stage = TwoBit(k.places, bound=k.bound, follow=k.follow)
    return Scheme(k.sgd(), k.cohorts(), stages=(stage,), aggregator=BitVote(k.places))


def few_bits(k: Knobs) -> Scheme:
    """A few bits of each weight travel up, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts())


def qsgd(k: Knobs) -> Scheme:
    """A few bits of each weight travel up, rounded at random, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), stages=(Qsgd(4 if k.bits is None else k.bits),))


def top_k_ef(k: Knobs) -> Scheme:
    """Each client's largest weights travel up, the rest waits there, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), stages=(TopFeedback(k.ratio),))


def standalone(k: Knobs) -> Scheme:
    """Each client trains alone, nothing travels; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), step=Stay(), apart=True, alone=True)


def centralized(k: Knobs) -> Scheme:
    """All data in one place, nothing travels; nothing is protected."""
    return Scheme(k.sgd(), Fixed(1), apart=True)


def house(k: Knobs) -> Scheme:
    """A linear head on public features of the data trains and travels both ways; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts())


def _shares(k: Knobs) -> Noise:
    return Noise(k.multiplier())


def _trusted(k: Knobs) -> ServerNoise:
    return ServerNoise(k.multiplier())


def _correlated(k: Knobs) -> CorrelatedNoise:
    drawn = k.cohorts()
    if not isinstance(drawn, Once):
        raise Mistake(
            f"sampling={drawn.kind} has no turns, and noise that later rounds take back counts on them: take once, or"
            " a scheme with other noise, as hush"
        )
    return CorrelatedNoise(k.multiplier(), drawn.rounds, drawn.passes)


def _coins(k: Knobs) -> Coins:
    # A cohort of random size must not be told by the number of coins: spare places are filled with fair ones.
    return Coins(k.multiplier(), 2 if k.bits is None else k.bits, spare=0.0 if isinstance(k.sampling, Fixed) else 6.0)


_HOW: dict[Callable[[Knobs], Stage], str] = {
    _shares: "clipped, noise in shares",
    _trusted: "clipped, noise by the server",
    _correlated: "clipped, noise by the server that later rounds take back",
    _coins: "clipped, biased coins",
}


@dataclass(frozen=True)
class Entry:
    """A scheme of the catalogue: its name, where it comes from, and the function that builds it.

    level: whom its noise protects; source: the stage that does, for clients. usual: knobs of its paper, where they
    differ from those of Knobs; `clients` is the number of nodes there.
    """

    name: str
    paper: str
    build: Callable[[Knobs], Scheme]
    level: Literal["client", "record"] | None = None
    usual: Mapping[str, Any] = field(default_factory=dict)
    source: Callable[[Knobs], Stage] = _shares

    @property
    def private(self) -> bool:
        """Whether it has a guarantee."""
        return self.level is not None

    @property
    def settings(self) -> dict[str, Any]:
        """The usual knobs that a task of any kind can take: a balance needs two classes."""
        return {key: value for key, value in self.usual.items() if key not in ("balance", "clients", "rounds")}

    @property
    def featured(self) -> bool:
        """Whether it trains on public features of the data in place of the data."""
        return self.build is house

    @property
    def summary(self) -> str:
        """What travels up and down, and what is protected."""
        text = (self.build.__doc__ or "").strip()
        if self.level == "client":
            text = text.replace("the mean is weighted by the number of records", "the mean is uniform")
            text = text.replace("nothing is protected", f"each client is protected ({_HOW[self.source]})")
        return text

    def scheme(self, knobs: Knobs) -> Scheme:
        """The scheme; the private variant clips what travels and adds noise, with uniform weights."""
        if self.level == "client" and knobs.sampling is None:
            knobs = replace(knobs, sampling=self.usual.get("sampling", Poisson(100 / 6000)))
        base = self.build(knobs)
        if base.step == Average():
            base = replace(base, step=knobs.step())
        if knobs.average:
            base = replace(base, average=knobs.average)
        if knobs.down is not None:
            base = replace(base, down=knobs.downlink())
        if self.level != "client":
            return base
        kept = tuple(stage for stage in base.stages if isinstance(stage, Sense))
        return replace(base, stages=(*kept, knobs.clip, self.source(knobs)))


def _pair(name: str, build: Callable[[Knobs], Scheme], where: str, where_private: str) -> list[Entry]:
    return [Entry(name, where, build), Entry(f"{name}-dp", where_private, build, "client")]


# Table 5 of the second paper. There the batches of a -dp scheme are downsampled to equal classes.
_HOSPITALS = {"sampling": Fixed(3), "rate": 0.01, "epochs": 5, "balance": "weights"}
_PATIENTS = {"sampling": Fixed(3), "rate": 0.05, "steps": 1, "batch": 300, "clip": Clip(2.0), "balance": "downsample"}
_RECORDS = [
    Entry("fl-standard", f"{C}, Alg. 1-2", fl_std, usual={**_HOSPITALS, "batch": 100}),
    Entry("fl-standard-dp", f"{C}, Alg. 5-7", fl_standard_dp, "record", _PATIENTS),
    Entry("fl-sign", f"{C}, Alg. 3", fl_sign, usual={**_HOSPITALS, "batch": None}),
    Entry("fl-sign-dp", f"{C}, Alg. 4, 6, 7", fl_sign_dp, "record", {**_PATIENTS, "gamma": 0.005}),
    Entry("centralized", f"{C}, section 4", centralized, usual={**_HOSPITALS, "epochs": 1, "batch": 100}),
]


# The third paper: every node in every round, ten epochs between aggregations.
_NODES = {"clients": 31, "sampling": Fixed(31), "rate": 0.05, "epochs": 10, "batch": 32}
_OTHERS = [
    Entry("two-bit", f"{A}, Alg. 1-2", two_bit, usual=_NODES),
    Entry("two-bit-dp", "hush", few_bits, "client", source=_coins),
    Entry("dp-fedavg", f"McMahan et al. (2018); compared in {A}", fl_std, "client", source=_trusted),
    Entry("standalone", f"compared in {A}", standalone, usual=_NODES),
    Entry("qsgd", "Alistarh et al.: QSGD (2017)", qsgd),
    Entry("top-k-ef", "Stich et al. (2018), Karimireddy et al. (2019): error feedback", top_k_ef),
]


# The house schemes. All was chosen on held-out clients of Fashion-MNIST: experiments/frontier.
_HEAD = {"rate": 30.0, "steps": 5, "batch": None, "clip": Clip(0.3), "down": 8}
_BEST = {"sampling": Poisson(1 / 20), "rounds": 60, "momentum": 0.8, "server_rate": 27.0, "average": 0.9}
_TINY = {"sampling": Poisson(1 / 60), "rounds": 15, "momentum": 0.8, "server_rate": 53.0, "average": 0.7}
_ONCE = {"sampling": Once(12), "rounds": 12, "momentum": 0.5, "server_rate": 80.0, "average": 0.3, "rate": 40.0}
_LATER = {"sampling": Once(16), "rounds": 16, "momentum": 0.7, "server_rate": 80.0, "average": 0.6}
_OURS = [
    Entry("hush", "hush", house, "client", {**_HEAD, **_BEST, "directions": 600, "order": 2}),
    Entry("hush-tiny", "hush", house, "client", {**_HEAD, **_TINY, "directions": 70, "order": 1}),
    Entry("hush-once", "hush", house, "client", {**_HEAD, **_ONCE, "directions": 233, "order": 2}),
    Entry("hush-trusted", "hush", house, "client", {**_HEAD, **_LATER, "directions": 400, "order": 2}, _correlated),
]


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for pair in (
        _pair("fl-std", fl_std, f"{U}, supplement Alg. 1-2", f"{U}, supplement Alg. 3"),
        _pair("fl-top", fl_top, f"{U}, Alg. 1-2, Table 1", f"{U}, Alg. 2-3, Table 1"),
        _pair("fl-top-bis", fl_top_bis, f"{U}, supplement D", f"{U}, supplement D, Table 6"),
        _pair("fl-basic", fl_basic, f"{U}, section 4, Table 1", f"{U}, section 4, Table 1"),
        _pair("fl-bas-2", fl_bas_2, f"{U}, supplement D", f"{U}, supplement D, Table 6"),
        _pair("fl-bas-3", fl_bas_3, f"{U}, supplement D", f"{U}, supplement D, Table 6"),
        _pair("fl-bas-4", fl_bas_4, f"{U}, supplement D", f"{U}, supplement D, Table 6"),
        _pair("fl-cs", fl_cs, f"{U}, section 4, after Kerkouche et al. (2020)", f"{U}, section 4, Table 1"),
        _pair("fl-head", fl_head, "hush", "hush"),
        _RECORDS,
        _OTHERS,
        _OURS,
    )
    for entry in pair
}
ALIASES = {"fl-bas-1": "fl-basic", "fl-bas-1-dp": "fl-basic-dp", "fedavg": "fl-std"}

# Settings that some parts listen to: a scheme without these parts has no such setting.
OWN: dict[str, tuple[type, ...]] = {
    "ratio": (TopK, RandomK, Vote, Sense, TopFeedback),
    "gamma": (SignStep,),
    "places": (TwoBit,),
    "bound": (TwoBit,),
    "follow": (TwoBit,),
    "bits": (Coins, Qsgd),
    "chunks": (Sense,),
    "momentum": (Momentum, Average),
    "server_rate": (Momentum, Average),
}


def has(scheme: Scheme, setting: str) -> bool:
    """Whether the scheme listens to this setting."""
    return any(isinstance(part, OWN[setting]) for part in (scheme.coordinates, *scheme.stages, scheme.step))


_WHOLE = ("steps", "epochs", "batch", "probe", "places", "bits", "chunks", "seed", "directions", "order", "down")
_FREE = ("batch", "epochs", "bits", "noise", "vote", "share", "momentum", "server_rate", "directions", "down")


def entry(name: str) -> Entry:
    """The entry of this name; an unknown name is refused with the nearest one."""
    name = ALIASES.get(name, name)
    if name not in ENTRIES:
        near = difflib.get_close_matches(name, [*ENTRIES, *ALIASES], n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise Mistake(f"scheme {name!r} is not known: {hint}`hush schemes` lists all")
    return ENTRIES[name]


def scheme(name: str, **knobs: object) -> Scheme:
    """A published scheme by name. Keywords are the fields of Knobs; `clip` may be a number.

    >>> scheme("fl-top-dp", ratio=0.01, clip=0.5, noise=1.2).private
    True
    """
    found = entry(name)
    known = Knobs.__dataclass_fields__
    for key in knobs:
        if key not in known:
            raise Mistake(f"{name} has no setting {key!r}: choose from {', '.join(known)}")
    given = {**found.settings, **knobs}
    if "steps" in knobs:
        given["epochs"] = None
    clip = given.get("clip", AdaptiveClip())
    if clip == "adaptive":
        clip = AdaptiveClip()
    elif isinstance(clip, int | float):
        clip = Clip(clip)
    if not isinstance(clip, Clip | AdaptiveClip):
        raise Mistake(f"clip={clip!r} is not a bound: give a number, 'adaptive', or a Clip")
    for key, value in knobs.items():
        whole = key in _WHOLE
        free = value is None and key in _FREE
        if key in ("sampling", "clip", "balance", "batches", "divisor") or free:
            continue
        if key == "follow" and not isinstance(value, bool):
            raise Mistake(f"follow={value!r} must be True or False")
        if not isinstance(value, int if whole else int | float):
            raise Mistake(f"{key}={value!r} must be a {'whole number' if whole else 'number'}")
    return found.scheme(Knobs(**{**given, "clip": clip}))
