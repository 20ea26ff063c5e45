"""What the measured times come to: quotients between contenders, beside the goals.

A time that others disturbed is not final: nothing is met or missed by it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

Result = dict[str, Any]
Results = dict[str, list[Result]]  # by suite
NOISY = 0.1  # of a core, by other processes: a turn with more is not final
SLACK = 1.02  # what "no higher" leaves to chance
MB = 1e6


@dataclass(frozen=True)
class Claim:
    """A number beside its goal. `more` is better, or less is; `spread`: the least and the greatest of the turns."""

    text: str
    value: float
    goal: float
    more: bool
    unit: str = ""
    final: bool = True
    spread: tuple[float, float] | None = None

    @property
    def reached(self) -> bool:
        """Whether the number is as good as its goal."""
        return self.value >= self.goal if self.more else self.value <= self.goal

    @property
    def verdict(self) -> str:
        """What may be said: nothing of a number that is not final."""
        return ("met" if self.reached else "missed") if self.final else "not final"


def quiet(turn: dict[str, Any]) -> bool:
    """Whether others left the cores alone."""
    return bool(turn.get("others", 0.0) <= NOISY)


def final(*results: Result) -> bool:
    """Whether all their turns were quiet."""
    return all(quiet(turn) for result in results for turn in result["turns"])


def seconds(result: Result) -> list[float]:
    """Mean seconds per round, of each turn."""
    return [sum(turn["seconds"]) / len(turn["seconds"]) for turn in result["turns"] if "seconds" in turn]


def each(name: str) -> Callable[[Result], list[float]]:
    """A number that every turn of a result has."""
    return lambda result: [float(turn[name]) for turn in result["turns"]]


def quotients(above: Result, below: Result, number: Callable[[Result], list[float]] = seconds) -> list[float]:
    """One contender's number over the other's, turn by turn."""
    return [a / b for a, b in zip(number(above), number(below), strict=False)]


def rss(result: Result) -> float:
    """Peak memory, in MB."""
    return float(max([result["rss"], *(turn["rss"] for turn in result["turns"])])) / MB


def find(results: Results, suite: str, start: str, cores: int) -> list[Result]:
    """The contenders of a suite whose name starts so, that were measured; none of another commit."""
    return [
        one
        for one in results.get(suite, [])
        if one["name"].startswith(start) and one["cores"] == cores and seconds(one) and not one.get("before")
    ]


def pairs(rows: list[Result]) -> list[tuple[Result, Result]]:
    """hush of this tree, and the same contender at the other commit."""
    earlier = {(one["name"], one["cores"]): one for one in rows if one.get("before") and seconds(one)}
    mine = [one for one in rows if not one.get("before") and seconds(one)]
    return [(one, earlier[key]) for one in mine if (key := (one["name"], one["cores"])) in earlier]


def fastest(found: Iterable[Result]) -> Result:
    """The one with the least median time."""
    return min(found, key=lambda one: median(seconds(one)))


def ratio(
    text: str, above: Result, below: Result, goal: float, more: bool, number: Callable[[Result], list[float]] = seconds
) -> Claim:
    """How many times one takes what the other does, over the turns."""
    found = quotients(above, below, number)
    return Claim(text, median(found), goal, more, "times", final(above, below), (min(found), max(found)))


def peers(results: Results) -> list[Claim]:
    """Beside other libraries and the tight loop, where they were measured."""
    found: list[Claim] = []

    def compare(text: str, above: list[Result], below: list[Result], goal: float, more: bool) -> None:
        if above and below:
            a, b = fastest(above), fastest(below)
            found.append(ratio(text.format(a=a["name"], b=b["name"]), a, b, goal, more))

    def get(suite: str, start: str, cores: int = 1) -> list[Result]:
        return find(results, suite, start, cores)

    def hush(name: str, cores: int) -> list[Result]:
        return [one for one in get("cnn", "hush", cores) if one["name"] == f"hush {name}"]

    loop = get("cnn", "loop")
    compare("CNN, one core: fl-top-dp takes of the tight loop", hush("fl-top-dp", 1), loop, 0.60, False)
    compare("CNN, one core: fl-std-dp takes of the tight loop", hush("fl-std-dp", 1), loop, 0.85, False)
    for name in ("fl-std", "fl-std-dp", "fl-top-dp"):
        compare(f"CNN: {name} on one core takes of two cores", hush(name, 1), hush(name, 2), 1.8, True)
    for start, goal in (("pfl", 2.0), ("FedJAX", 2.0), ("Flower", 3.5)):
        compare("CNN, two cores: {a} takes of {b}", get("cnn", start, 2), hush("fl-top-dp", 2), goal, True)
    others = [one for start in ("pfl", "FedJAX", "Flower") for one in get("linear", start)]
    compare("linear, one core: the fastest peer ({a}) takes of {b}", others, get("linear", "hush"), 30, True)
    head = get("head", "loop")
    filling, held = get("head", "hush head, cache f"), get("head", "hush head, cache h")
    compare("head only: the tight loop takes of hush while the cache fills", head, filling, 10, True)
    compare("head only: the tight loop takes of hush once it holds", head, held, 100, True)
    return found


def sizes(results: Results) -> list[Claim]:
    """What stays small whatever the population and the cohort, and the bytes of the secure sum."""
    found: list[Claim] = []
    for work in ("linear", "cnn"):
        both = find(results, "population", f"hush {work}", 1)
        few, many = ([one for one in both if one["name"].endswith(f" {count}")] for count in ("6,000", "1,000,000"))
        if few and many:
            a, b = many[0], few[0]
            found.append(ratio(f"population, {work}: 10^6 clients take of 6,000", a, b, 1.2, False))
            words = f"population, {work}: memory of 10^6 clients over 6,000"
            found.append(Claim(words, rss(a) - rss(b), 500, False, "MB", final(a, b)))
    for one in find(results, "memory", "hush", 2):
        words = f"1,000 clients on the CNN, {one['name']}: peak memory"
        found.append(Claim(words, rss(one), 3000, False, "MB", final(one)))
    for one in find(results, "secure", "hush, integers", 2):
        for way, goal in (("up", 6.0), ("down", 16.0)):
            # Counted from messages: who else used the cores changes nothing.
            words = f"secure sum, 60 rounds of 300 clients: protocol {way}, per client, cohort keys not counted"
            found.append(Claim(words, max(each(f"kB {way}")(one)), goal, False, "kB"))
    return found


def before(results: Results) -> list[Claim]:
    """Beside the other commit, where one was given."""
    found: list[Claim] = []
    for suite, rows in results.items():
        for mine, other in pairs(rows):
            name, cores = mine["name"], f"{mine['cores']} core{'s' if mine['cores'] > 1 else ''}"
            who = f"{suite}, {name}, {cores}"
            if suite == "recommended":
                found.append(ratio(f"{who}: takes of the other commit", mine, other, 1 / 3, False))
            if suite == "medical":
                goal = {"hush fl-std-dp": 5.0, "hush fl-top-dp": 2.0}[name]
                found.append(ratio(f"{who}: the other commit takes of it", other, mine, goal, True))
            if name == "hush, secure sum":
                words = f"{who}: CPU of a client, of the other commit's"
                found.append(ratio(words, mine, other, SLACK, False, each("client")))
            words = f"{who}: peak memory, of the other commit's"
            found.append(ratio(words, mine, other, SLACK, False, each("rss")))
    return found


def claims(results: Results) -> list[Claim]:
    """All claims for which the contenders were measured."""
    return [*peers(results), *sizes(results), *before(results)]
