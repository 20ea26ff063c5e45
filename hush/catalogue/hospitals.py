"""Hospitals that protect each record, and send one bit of each weight (C)."""

from hush.catalogue.constrained import fl_std
from hush.catalogue.forms import Entry
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip, Sign
from hush.parts.steps import SignStep

C = "Kerkouche, Ács, Castelluccia, Genevès: Privacy-Preserving and Bandwidth-Efficient Federated Learning (2021)"


def fl_sign(k: Settings) -> Scheme:
    """One bit of each weight travels up, the whole model down; nothing is protected."""
    return Scheme(k.sgd(), k.cohorts(), stages=(Sign(),), step=SignStep(k.gamma))


def fl_standard_dp(k: Settings) -> Scheme:
    """All weights travel both ways; each record is protected (clipped and noised where it lies)."""
    return Scheme(k.dpsgd(), k.cohorts())


def fl_sign_dp(k: Settings) -> Scheme:
    """One bit of each weight travels up, the whole model down; each record is protected (noised where it lies)."""
    return Scheme(k.dpsgd(), k.cohorts(), stages=(Sign(),), step=SignStep(k.gamma))


def centralized(k: Settings) -> Scheme:
    """All data in one place, nothing travels; nothing is protected."""
    return Scheme(k.sgd(), Fixed(1), baseline=True)


# Table 5 of the second paper. There the batches of a -dp scheme are downsampled to equal classes.
_HOSPITALS = {"sampling": Fixed(3), "rate": 0.01, "epochs": 5, "balance": "weights"}
_PATIENTS = {"sampling": Fixed(3), "rate": 0.05, "steps": 1, "batch": 300, "clip": Clip(2.0), "balance": "downsample"}
ENTRIES = (
    Entry("fl-standard", f"{C}, Alg. 1-2", fl_std, usual={**_HOSPITALS, "batch": 100}),
    Entry("fl-standard-dp", f"{C}, Alg. 5-7", fl_standard_dp, usual=_PATIENTS),
    Entry("fl-sign", f"{C}, Alg. 3", fl_sign, usual={**_HOSPITALS, "batch": None}),
    Entry("fl-sign-dp", f"{C}, Alg. 4, 6, 7", fl_sign_dp, usual={**_PATIENTS, "gamma": 0.005}),
    Entry("centralized", f"{C}, section 4", centralized, usual={**_HOSPITALS, "epochs": 1, "batch": 100}),
)
