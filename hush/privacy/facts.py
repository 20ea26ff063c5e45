"""What a run knows about its own privacy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hush.privacy import sums
from hush.privacy.events import BatchSampling, Cohorts, Level

SEED = (
    "simulation seed: not a deployment. Whoever knows the seed can draw the same noise and take it off: this run"
    " protected nobody, and its figures are those that a deployment would have"
)
SYSTEM = "the operating system's generator at each party: nobody can draw it again"


@dataclass(frozen=True)
class Finding:
    """What an attack on a run showed, beside what was proven.

    attack      its name
    view        the adversary that it played: model, server, colluding or upload
    stated      the proven epsilon of what was attacked; None: no guarantee
    shown       the lower bound on epsilon; infinite: exact recovery
    confidence  of that bound, which is at this delta
    assumes     what beyond independence of trials the bound assumes; None: nothing
    words       one sentence: what was done
    """

    attack: str
    view: str
    stated: float | None
    shown: float
    delta: float
    confidence: float
    assumes: str | None
    words: str

    @property
    def alarm(self) -> bool:
        """Whether more was shown than is proven."""
        return self.stated is not None and self.shown > self.stated


@dataclass(frozen=True)
class Facts:
    """What a run knows about its own privacy. epsilon: the views, by name; a value may be "none".

    batch, steps, reach, batches: see Event; for level record. unnoticed_epsilon: see views.unnoticed_epsilon.
    uncovered: what is used of the records that no noise covers. trusted: the noise is the server's. floating: it is
    of real numbers, drawn in floating point. noise_assumptions: its own. paper_how: what the paper's own figure is,
    where the run has no guarantee and the paper claims one. integers: the noise, where it is of integers. secure,
    servers, corrupt: see SecureSum; simulated is one that is not full. tolerance: the part of a cohort that shares of
    noise are not sized for. dropout: the declared probability that a drawn client drops out; slack: what of a round's
    delta an abort takes under it. units: how many clients, or records, one of which is protected. result, clipping: see
    hush.experiment.outcome. audit: what attacks on the run showed; canaries: which of its clients or records were its.
    """

    scheme: str
    private: bool
    rounds: int
    delta: float | None
    accountant: str
    sampling: Cohorts
    population: int
    cohort: float
    epsilon: Mapping[str, float | str] = field(default_factory=dict)
    participation_worst: int = 0
    participation_median: float = 0.0
    noise_source: str = SEED
    assumptions: tuple[str, ...] = ()
    unnoised: tuple[str, ...] = ()
    paper_epsilon: float | None = None
    reason: str = "the updates travel without a bound and without noise"
    level: Level = "client"
    batch: float = 1.0
    steps: int = 1
    reach: int = 1
    batches: BatchSampling = "poisson"
    unnoticed_epsilon: float | None = None
    uncovered: str | None = None
    trusted: bool = False
    floating: bool = True
    noise_assumptions: tuple[str, ...] = ()
    paper_how: str | None = None
    integers: sums.IntegerSum | None = None
    secure: sums.Secure | None = None
    canaries: str | None = None
    servers: int = 1
    corrupt: float = 0.0
    tolerance: float = 0.0
    dropout: float = 0.0
    slack: float = 0.0
    units: int = 0
    result: Mapping[str, Any] | None = None
    clipping: Mapping[str, Any] | None = None
    audit: tuple[Finding, ...] = ()
