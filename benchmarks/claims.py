"""What the measured times come to: quotients between contenders, beside what was to be shown."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

Results = dict[str, list[dict[str, Any]]]
MB = 1e6


@dataclass(frozen=True)
class Claim:
    """A number beside its goal. `more` is better, or less is."""

    text: str
    value: float
    goal: float
    more: bool
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value >= self.goal if self.more else self.value <= self.goal


def seconds(result: dict[str, Any]) -> list[float]:
    """Mean seconds per round, of each turn."""
    return [sum(turn["seconds"]) / len(turn["seconds"]) for turn in result["turns"] if "seconds" in turn]


def quotient(above: dict[str, Any], below: dict[str, Any]) -> float:
    """The median over the turns of one contender's time over the other's in the same turn."""
    return median(a / b for a, b in zip(seconds(above), seconds(below), strict=False))


def rss(result: dict[str, Any]) -> float:
    """Peak memory, in MB."""
    return float(max([result["rss"], *(turn["rss"] for turn in result["turns"])])) / MB


def find(results: Results, suite: str, start: str, cores: int) -> list[dict[str, Any]]:
    """The contenders of a suite whose name starts so, that were measured."""
    return [
        one
        for one in results.get(suite, [])
        if one["name"].startswith(start) and one["cores"] == cores and seconds(one)
    ]


def fastest(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The one with the least median time."""
    return min(found, key=lambda one: median(seconds(one)))


def claims(results: Results) -> list[Claim]:
    """All claims for which the contenders were measured."""
    found: list[Claim] = []

    def compare(text: str, above: list[dict[str, Any]], below: list[dict[str, Any]], goal: float, more: bool) -> None:
        if above and below:
            a, b = fastest(above), fastest(below)
            found.append(Claim(text.format(a=a["name"], b=b["name"]), quotient(a, b), goal, more, "times"))

    def get(suite: str, start: str, cores: int = 1) -> list[dict[str, Any]]:
        return find(results, suite, start, cores)

    loop = get("cnn", "loop")
    compare("CNN, one core: fl-top-dp takes of the tight loop", get("cnn", "hush fl-top-dp"), loop, 0.80, False)
    compare("CNN, one core: fl-std-dp takes of the tight loop", get("cnn", "hush fl-std-dp"), loop, 0.95, False)
    for name in ("fl-std", "fl-std-dp", "fl-top-dp"):
        mine = [one for one in get("cnn", "hush", 2) if one["name"] == f"hush {name}"]
        alone = [one for one in get("cnn", "hush") if one["name"] == f"hush {name}"]
        compare(f"CNN: {name} on one core takes of two cores", alone, mine, 1.8, True)
        for start, goal in (("pfl", 1.7), ("FedJAX", 1.7), ("Flower, 100", 3.0), ("Flower, 6,000", 30.0)):
            compare(f"CNN, two cores: {{a}} takes of hush {name}", get("cnn", start, 2), mine, goal, True)
    for cores in (1, 2):
        # A peer that is faster with one core may leave the other idle.
        places = [(start, n) for start in ("pfl", "FedJAX", "Flower") for n in range(1, cores + 1)]
        peers = [one for start, n in places for one in get("linear", start, n)]
        words = f"linear, {cores} core(s): the fastest peer ({{a}}) takes of hush fl-std-dp"
        compare(words, peers, get("linear", "hush", cores), 10.0, True)
    head = get("head", "loop")
    compare(
        "head only: the tight loop takes of hush while the cache fills",
        head,
        get("head", "hush head, cache f"),
        10,
        True,
    )
    compare("head only: the tight loop takes of hush once it holds", head, get("head", "hush head, cache h"), 100, True)
    for work in ("linear", "cnn"):
        few, many = (
            [one for one in get("population", f"hush {work}") if one["name"].endswith(f" {count}")]
            for count in ("6,000", "1,000,000")
        )
        compare(f"population, {work}: 10^6 clients take of 6,000", many, few, 1.2, False)
        if few and many:
            more = rss(many[0]) - rss(few[0])
            found.append(Claim(f"population, {work}: memory of 10^6 clients over 6,000", more, 500, False, "MB"))
    for one in get("memory", "hush", 2):
        found.append(Claim(f"1,000 clients on the CNN, {one['name']}: peak memory", rss(one), 3000, False, "MB"))
    return found
