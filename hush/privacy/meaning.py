"""What an epsilon and a delta mean, in words: how often the best guess about one client, or one record, can be right.

Of two worlds that are equally likely, whoever sees an (epsilon, delta)-differentially private release names the right
one with probability (exp(epsilon) + delta) / (1 + exp(epsilon)) at most. For its two errors a and b satisfy
1 - b <= exp(epsilon) a + delta and 1 - a <= exp(epsilon) b + delta (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath
2015), and a + b is least at a = b = (1 - delta) / (1 + exp(epsilon)). The bound needs both directions of the relation,
as every epsilon here has them, and nothing else: not the noise, not what else is known.
"""

import math

from hush.privacy.events import Cohorts, Level

LITTLE = 0.99  # a guess that may be right so often is hardly bounded
_CERTAIN = 0.999
_ACCOUNTANTS = {
    "pld": "privacy loss distributions: adds up what all rounds reveal, as tightly as is known",
    "rdp": "Rényi differential privacy: adds up what all rounds reveal, by a bound that is a little larger",
    "moments": "the papers' formula: adds up what all rounds reveal, by a bound that is larger",
}


def guess(epsilon: float | str, delta: float) -> float:
    """How often a guess between two equally likely worlds can be right at most; 1 where there is no guarantee."""
    if isinstance(epsilon, str) or epsilon == math.inf:
        return 1.0
    return 1 - (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))


def percent(probability: float) -> str:
    """Rounded up to a tenth: 73.2 %."""
    tenths = math.ceil(1000 * probability - 1e-9)
    return f"{tenths // 10} %" if tenths % 10 == 0 else f"{tenths / 10:.1f} %"


def one_in(probability: float) -> str:
    """One in so many, rounded up: 1 in 100,000."""
    return f"1 in {math.floor(1 / probability * (1 + 1e-9)):,}"


def question(view: str, sampling: Cohorts, batches: Cohorts = "poisson", level: Level = "client") -> str:
    """What is guessed: which of the two worlds of hush.privacy.neighbours it is."""
    if level == "record":
        instead = " or another one in its place" if batches == "fixed" else ""
        return f"whether a given record{instead} was among its client's data"
    if view == "model" and sampling != "once":
        instead = " or another one in its place" if sampling == "fixed" else ""
        return f"whether a given client{instead} took part"
    if sampling == "fixed":
        return "whether what a given client sent was made of its own data or of another client's"
    return "whether a given client's data were in what it sent"


def meaning(asked: str, delta: float, epsilon: float | str, median: float | str | None = None) -> str:
    """What an epsilon says of a guess; median: that of the middle client."""
    best = guess(epsilon, delta)
    if best == 1:
        return f"Nothing is promised: a guess {asked} may be right in all cases"
    middle = "" if median is None else f" (about the middle client: {_often(guess(median, delta))})"
    said = f"A guess {asked} is right in 50 % of cases at first, and in {_often(best)} with what is seen{middle}"
    return said + (". Such an epsilon promises next to nothing" if best >= LITTLE else "")


def of_delta(delta: float) -> str:
    """What a delta says."""
    return f"{delta:g}, {one_in(delta)}: the part of the probability that epsilon leaves open; percentages include it"


def of_epsilon(level: Level) -> str:
    """What every epsilon says."""
    return (
        f"how much the odds of any guess about one {level} can grow by what is released: e^epsilon times at most, that"
        " is 2.7 times for 1, and 20 times for 3"
    )


def of_accountant(name: str) -> str:
    """What an accountant does."""
    return f"{name}, {_ACCOUNTANTS[name]}"


def _often(best: float) -> str:
    return "nearly 100 %" if best > _CERTAIN else f"at most {percent(best)}"
