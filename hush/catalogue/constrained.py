"""Constrained federated learning: some of the weights train or travel, or a transform of the update does (U)."""

from collections.abc import Callable

from hush.catalogue.forms import SHARES, Entry
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.parts.coordinates import Only, RandomK
from hush.parts.stages import Sense, Weigh

U = "Kerkouche, Ács, Castelluccia, Genevès: Constrained Differentially Private Federated Learning (2021)"


def fl_std(k: Settings) -> Scheme:
    """All weights travel both ways; the mean is weighted by the number of records; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), stages=(Weigh(),))


def fl_std_uniform(k: Settings) -> Scheme:
    """All weights travel both ways; the mean is uniform; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts())


def fl_top(k: Settings) -> Scheme:
    """A fixed Top-K of the weights trains and travels both ways; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), k.top())


def fl_top_bis(k: Settings) -> Scheme:
    """All weights train at the client, the fixed Top-K travels both ways; nothing is protected."""
    return Scheme(k.sgd(free=True), k.cohorts(), k.top())


def fl_basic(k: Settings) -> Scheme:
    """A fresh random set trains and travels up, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), RandomK(k.ratio, fresh=True))


def fl_bas_2(k: Settings) -> Scheme:
    """All weights train, a fresh random set travels up, the whole model down; nothing is protected."""
    return Scheme(k.sgd(free=True), k.cohorts(), RandomK(k.ratio, fresh=True))


def fl_bas_3(k: Settings) -> Scheme:
    """One random set trains and travels both ways; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), RandomK(k.ratio, fresh=False))


def fl_bas_4(k: Settings) -> Scheme:
    """All weights train, one random set travels both ways; nothing is protected."""
    return Scheme(k.sgd(free=True), k.cohorts(), RandomK(k.ratio, fresh=False))


def fl_cs(k: Settings) -> Scheme:
    """Random rows of a cosine transform travel up, the whole model down; the server rebuilds; nothing is protected."""
    sense = Sense(k.ratio, k.chunks, k.seed)
    return Scheme(k.sgd(), k.cohorts(), stages=(sense,), step=k.step(0.35, 0.9, sense))


def fl_head(k: Settings) -> Scheme:
    """The last layer alone trains and travels both ways; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), Only())


def _pair(name: str, build: Callable[[Settings], Scheme], where: str, where_private: str) -> list[Entry]:
    """A scheme and its private form: fl-top and fl-top-dp, which clips its update and adds a share of noise."""
    return [Entry(name, where, build), Entry(f"{name}-dp", where_private, build, SHARES)]


ENTRIES = (
    Entry("fl-std", f"{U}, supplement Alg. 1-2", fl_std),
    # The numbers of records are private facts, so that no guarantee could stand on a mean weighted by them.
    Entry("fl-std-dp", f"{U}, supplement Alg. 3", fl_std_uniform, SHARES),
    *_pair("fl-top", fl_top, f"{U}, Alg. 1-2, Table 1", f"{U}, Alg. 2-3, Table 1"),
    *_pair("fl-top-bis", fl_top_bis, f"{U}, supplement D", f"{U}, supplement D, Table 6"),
    *_pair("fl-basic", fl_basic, f"{U}, section 4, Table 1", f"{U}, section 4, Table 1"),
    *_pair("fl-bas-2", fl_bas_2, f"{U}, supplement D", f"{U}, supplement D, Table 6"),
    *_pair("fl-bas-3", fl_bas_3, f"{U}, supplement D", f"{U}, supplement D, Table 6"),
    *_pair("fl-bas-4", fl_bas_4, f"{U}, supplement D", f"{U}, supplement D, Table 6"),
    *_pair("fl-cs", fl_cs, f"{U}, section 4, after Kerkouche et al. (2020)", f"{U}, section 4, Table 1"),
    *_pair("fl-head", fl_head, "hush", "hush"),
)
