"""What attacks on a run found, as JSON and in words. JSON has no infinity: shown is then "infinite"."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from hush.privacy.facts import Finding
from hush.privacy.shown import lowered, shown

VIEWS = ("model", "server", "colluding", "upload")
INFINITE = "infinite"


def written(finding: Finding) -> dict[str, Any]:
    """As a file holds it; "none" where nothing was guaranteed."""
    return {
        **asdict(finding),
        "stated": "none" if finding.stated is None or finding.stated == math.inf else finding.stated,
        "shown": INFINITE if finding.shown == math.inf else finding.shown,
    }


def parsed(row: Mapping[str, Any]) -> Finding:
    """What `written` wrote; anything else is a ValueError."""
    if not isinstance(row, Mapping) or set(row) != {field.name for field in fields(Finding)}:
        raise ValueError("the fields of a finding are others")
    stated = None if row["stated"] == "none" else _number("stated", row["stated"], math.inf)
    found = math.inf if row["shown"] == INFINITE else _number("shown", row["shown"], math.inf)
    texts = [row["attack"], row["view"], row["words"], *([] if row["assumes"] is None else [row["assumes"]])]
    if not all(isinstance(text, str) and text for text in texts) or row["view"] not in VIEWS:
        raise ValueError("attack, view, words and assumes are sentences or names, and view is one of a card's")
    delta, confidence = (_number(name, row[name], 1.0) for name in ("delta", "confidence"))
    return Finding(row["attack"], row["view"], stated, found, delta, confidence, row["assumes"], row["words"])


def row(finding: Finding) -> dict[str, Any]:
    """As a card has it."""
    return {**written(finding), "alarm": finding.alarm, "meaning": _meaning(finding)}


def alarms(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning for each attack that shows more than is proven."""
    return [
        f"the attack {one['attack']!r} shows epsilon {bound(one['shown'])} for the {one['view']} view, and"
        f" {shown(one['stated'])} is proven ({sure(one['confidence'])} confidence): the proof, the code or an"
        " assumption is wrong; do not rely on this card, and release nothing of this run, before it is explained"
        for one in rows
        if one["alarm"]
    ]


def bound(value: float | str) -> str:
    """A lower bound, rounded down."""
    return value if isinstance(value, str) else lowered(value)


def sure(confidence: float) -> str:
    """A confidence in percent, rounded down: 95 %, 99.88 %."""
    return f"{math.floor(1e4 * confidence + 1e-6) / 100:g} %"


def _meaning(finding: Finding) -> str:
    if finding.shown == math.inf:
        said = "what it looked for was recovered exactly: no epsilon can hold"
    elif finding.shown < 0.01:
        return "the attack showed nothing"
    else:
        said = f"with {sure(finding.confidence)} confidence, no epsilon below {bound(finding.shown)} can hold"
    if finding.alarm:
        return f"{said}. That is more than is proven: an alarm"
    if finding.stated is None:
        return f"{said}; none is promised here"
    return f"{said}; {shown(finding.stated)} is proven of what was attacked, and the attack does not contradict it"


def _number(name: str, value: Any, below: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < below:
        raise ValueError(f"{name} is {value!r}")
    return float(value)
