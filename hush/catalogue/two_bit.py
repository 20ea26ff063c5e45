"""Two bits of each weight, and what they are compared with (A)."""

from hush.catalogue.constrained import fl_std_uniform
from hush.catalogue.forms import COINS, TRUSTED, Entry
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.parts.aggregators import BitVote
from hush.parts.sampling import Fixed
from hush.parts.stages import TwoBit
from hush.parts.steps import Stay

A = "Aghapour, Ferdowsi, Saad: Two-Bit Aggregation (2021)"


def two_bits(k: Settings) -> Scheme:
    """The sign and one bit of each weight travel up, the whole model down; nothing is protected."""
    stage = TwoBit(k.precision, bound=k.bound, follow=k.follow)
    return Scheme(k.sgd(), k.cohorts(), stages=(stage,), aggregator=BitVote(k.precision))


def few_bits(k: Settings) -> Scheme:
    """A few bits of each weight travel up, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts())


def standalone(k: Settings) -> Scheme:
    """Each client trains alone, nothing travels; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), step=Stay(), baseline=True, standalone=True)


# Every node in every round, ten epochs between aggregations.
_NODES = {"clients": 31, "sampling": Fixed(31), "rate": 0.05, "epochs": 10, "batch": 32}
ENTRIES = (
    Entry("two-bit", f"{A}, Alg. 1-2", two_bits, usual=_NODES),
    Entry("two-bit-dp", "hush", few_bits, COINS),
    Entry("dp-fedavg", f"McMahan et al. (2018); compared in {A}", fl_std_uniform, TRUSTED),
    Entry("standalone", f"compared in {A}", standalone, usual=_NODES),
)
