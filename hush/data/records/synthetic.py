"""Synthetic patients: hospitals, diseases, codes and deaths drawn from a public seed. Nobody real is behind them.

Every patient has an unseen severity and three diseases. Each disease has its own distribution over the codes,
and so have critical care and what everybody gets. Codes of a day are drawn from these five sources.

    logit P(died) = base + age + complexity + admission type + severity + diseases (more so in old age) + codes

Every seventh code carries a risk of its own. Most of the risk is in the codes and in what they imply about diseases and
severity; age alone says little. Hospitals differ in their diseases, severity and admissions.

Areas under the ROC curve, measured at full size: the true risk 0.866, complexity alone 0.645, age alone 0.586. A
network 24428-200-200-1, trained in one place by SGD (rate 0.02, batches of 50, class-weighted loss), has 0.831 on a
held-out fifth after two epochs, and overfits from there; with a tenth of the patients 0.816.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.random.seeds import PublicSeed

Array = np.ndarray[Any, Any]

VERSION = 1  # another model of patients is another set
CODES = 24_419
HOSPITALS = 415
DISEASES = 120
GENDERS = ("Male", "Female", "Unknown")
ADMISSIONS = ("Emergency", "Urgent", "Trauma Center", "Unknown", "Elective")
GROUPS = ("general", "pregnant", "new-born")

# Popularity of the code of rank r: (r + _FLAT)^-2. At full size 7,442 codes are in a hundred admissions or more;
# the papers have about 7,300 of these.
_FLAT = 140
_SLOTS = 2**16  # a draw is one look into a table of so many slots
_MIX = 2**10
_EVERYBODY, _CRITICAL = 0, 1  # the first two sources; the diseases follow
_COMMON = 0.3  # share of the draws that come from what everybody gets
_LATER = 0.08  # share of the draws that fall on a later day

_BASE = -4.78
_AGE, _COMPLEXITY, _SEVERITY, _OLD = 0.35, 0.1, 0.55, 0.3
_TYPES = np.array([0.2, 0.0, 0.4, 0.0, -0.8])
_DISEASE, _CODE = 0.72, 0.56


@dataclass(frozen=True, eq=False)
class World:
    """What all patients share. Tables of slots: a uniform slot of a row is a draw from the row's distribution."""

    codes: Array  # source, slot -> code
    diseases: Array  # hospital, slot -> disease
    admissions: Array  # hospital, slot -> admission type
    severity: Array  # per hospital
    disease_risk: Array
    code_risk: Array


@dataclass(frozen=True, eq=False)
class Patients:
    """Admissions by column; codes as sorted rows (place of the admission, day, code); `risk` is the true one."""

    columns: dict[str, Array]
    place: Array
    day: Array
    code: Array
    risk: Array


def world(seed: int) -> World:
    """The hospitals, diseases and codes of a seed."""
    rng = PublicSeed(seed).generator("premier-like", "world")
    rank = rng.permutation(CODES)  # a code's number says nothing of its popularity
    popularity = (rank + 1.0 + _FLAT) ** -2
    # A code stands for two diseases, or for one: both may be the same. Diseases are of unequal size.
    sizes = rng.dirichlet(np.full(DISEASES, 2.0))
    homes = rng.choice(DISEASES, size=(CODES, 2), p=sizes)
    shares = np.zeros((DISEASES, CODES))
    for home, part in zip(homes.T, (0.7, 0.3), strict=True):
        shares[home, np.arange(CODES)] += part * popularity
    critical = np.where((rank >= 20) & (rank < 2000), popularity * (rng.random(CODES) < 0.04), 0.0)
    sources = np.vstack([popularity, critical, shares])
    prevalence = shares.sum(1) * np.exp(0.6 * rng.standard_normal((HOSPITALS, DISEASES)))
    types = np.array([0.70, 0.22, 0.02, 0.06]) * rng.gamma(6.0, size=(HOSPITALS, 4))
    risky = (rng.random(CODES) < 0.15) * rng.normal(0.1, 1.0, CODES)
    return World(
        np.vstack([_slots(row, _SLOTS).astype(np.uint16) for row in sources]),
        np.vstack([_slots(row, _MIX).astype(np.uint8) for row in prevalence]),
        np.vstack([_slots(row, _MIX).astype(np.uint8) for row in types]),
        0.2 * rng.standard_normal(HOSPITALS).astype(np.float32),
        rng.standard_normal(DISEASES).astype(np.float32),
        risky.astype(np.float32),
    )


def patients(shared: World, hospital: Array, dropped: Array, rng: np.random.Generator) -> Patients:
    """One admission per entry of `hospital`. Those marked in `dropped` break one of the rules of admission."""
    count = len(hospital)
    severity = rng.standard_normal(count, dtype=np.float32) + shared.severity[hospital]
    age = (15 + 75 * rng.beta(3.0, 1.7, count)).astype(np.int16)
    gender = (rng.random(count) * 1000 > 470).astype(np.uint8)
    gender[rng.random(count) < 0.001] = 2
    kind = shared.admissions[hospital, rng.integers(0, _MIX, count)]
    days = (3 + rng.poisson(np.exp(0.9 + 0.2 * severity))).clip(max=60).astype(np.int16)
    group = np.zeros(count, dtype=np.uint8)
    # Each of the dropped breaks one rule: elective, short, pregnant or new-born, child.
    rule = np.where(dropped, rng.choice(5, count, p=[0.4, 0.35, 0.1, 0.05, 0.1]), -1)
    kind[rule == 0] = ADMISSIONS.index("Elective")
    days[rule == 1] = rng.integers(1, 3, int((rule == 1).sum()))
    group[rule == 2], group[rule == 3] = 1, 2
    gender[rule == 2] = 1
    age[rule == 2] = rng.integers(18, 45, int((rule == 2).sum()))
    age[rule == 3] = 0
    age[rule == 4] = rng.integers(1, 15, int((rule == 4).sum()))

    diseases = shared.diseases[hospital[:, None], rng.integers(0, _MIX, (count, 3))]
    draws = 8 + rng.poisson(np.exp(3.5 + 0.15 * severity) * rng.gamma(8.0, 1 / 8, count))
    place, day, code = _codes(shared, severity, diseases, draws, days, rng)
    today = day == 1
    own = np.bincount(place[today], shared.code_risk[code[today]], minlength=count)
    mrci = (2 * (0.5 * draws + 1.5 * severity + 6 * rng.standard_normal(count))).round().clip(4, 120) / 2
    old = (age - 65.0) / 15
    felt = shared.disease_risk[diseases] @ np.array([1.0, 0.6, 0.4])
    logit = (
        _BASE
        + _AGE * old
        + _COMPLEXITY * (mrci - 20) / 10
        + _TYPES[kind]
        + _SEVERITY * severity
        + _DISEASE * felt * (1 + _OLD * old)
        + _CODE * own
    )
    risk = 1 / (1 + np.exp(-logit))
    columns = {
        "age": age,
        "gender": gender,
        "admission": kind,
        "mrci": mrci,
        "days": days,
        "group": group,
        "died": (rng.random(count) < risk).astype(np.uint8),
    }
    return Patients(columns, place, day, code, risk)


def _codes(
    shared: World, severity: Array, diseases: Array, draws: Array, days: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Who got what on which day, each code once a day, in this order."""
    place = np.repeat(np.arange(len(draws), dtype=np.int64), draws)
    critical = (1 / (1 + np.exp(3.2 - 0.9 * severity)))[place]
    choice = rng.random(len(place), dtype=np.float32)
    rest = (choice - critical - _COMMON) / (1 - critical - _COMMON)
    which = (rest > 0.5).astype(np.int64) + (rest > 0.8)
    source = np.where(
        choice < critical, _CRITICAL, np.where(rest < 0, _EVERYBODY, diseases[place, which].astype(np.int64) + 2)
    )
    code = shared.codes.ravel().take(source * _SLOTS + rng.integers(0, _SLOTS, len(place), dtype=np.uint16))
    later = np.flatnonzero(rng.random(len(place), dtype=np.float32) < _LATER)
    day = np.ones(len(place), dtype=np.int64)
    day[later] += (rng.random(len(later)) * days[place[later]]).astype(np.int64)
    key = np.sort((place << 21) | (day << 15) | code)
    key = key[np.diff(key, prepend=-1) > 0]  # np.unique goes by hashes, fifty times slower
    return key >> 21, (key >> 15) & 63, key & (2**15 - 1)


def _slots(weights: Array, count: int) -> Array:
    """`count` slots shared out in proportion to the weights."""
    total = np.cumsum(weights)
    ends = np.round(total * (count / total[-1])).astype(np.int64)
    return np.repeat(np.arange(len(weights)), np.diff(ends, prepend=0))
