"""Compressors of the literature, to compare with."""

from hush.catalogue.forms import Entry
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.parts.stages import Qsgd, TopFeedback


def qsgd(k: Settings) -> Scheme:
    """A few bits of each weight travel up, rounded at random, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), stages=(Qsgd(4 if k.bits is None else k.bits),))


def top_k_ef(k: Settings) -> Scheme:
    """Each client's largest weights travel up, the rest waits there, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), stages=(TopFeedback(k.ratio),))


ENTRIES = (
    Entry("qsgd", "Alistarh et al.: QSGD (2017)", qsgd),
    Entry("top-k-ef", "Stich et al. (2018), Karimireddy et al. (2019): error feedback", top_k_ef),
)
