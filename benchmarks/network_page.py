"""What network.py found, as a page: goals, seconds, CPU, memory, bytes. Medians over turns, ratios within a turn."""

from statistics import median
from typing import Any

Row = dict[str, Any]
PHASE, ROUND, PEER = 5.0, 2.2, 20.0
HUSH, FLOOR = "hush", "bare gRPC"


def name(found: Row) -> list[str]:
    """The first cells of a row."""
    return [f"{found['size']:,}", "secure" if found["secure"] else "plain", str(found["sites"])]


def ratio(turns: list[Row], of: Any) -> float:
    """hush's over the floor's, the median over the turns."""
    return median(of(one[HUSH]) / of(one[FLOOR]) for one in turns)


def phases(found: Row) -> dict[str, float]:
    """The ratio of each phase."""
    names = found["turns"][0][HUSH]["phases"]
    return {phase: ratio(found["turns"], lambda one, phase=phase: one["phases"][phase]) for phase in names}


def peer(found: Row, over: str = HUSH) -> float:
    """Flower's message round trip over the phase of hush or of the floor, which carries the same numbers."""
    return median(one["Flower"]["seconds"] / sum(one[over]["phases"].values()) for one in found["beside"])


def overhead(found: Row, over: str) -> float:
    """Bytes of TCP beyond those that hush counts, as a part of these."""
    both = [(sum(one[over]["socket"].values()), sum(one[over]["counted"].values())) for one in found["turns"]]
    return median(socket / counted for socket, counted in both) - 1


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["", f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


def _ms(values: list[float]) -> str:
    return f"{1e3 * median(values):,.1f}" if median(values) < 0.1 else f"{1e3 * median(values):,.0f}"


def _goals(cases: list[Row]) -> list[str]:
    worst = [(value, phase, one) for one in cases for phase, value in phases(one).items()]
    rounds = [(ratio(one["turns"], lambda each: each["seconds"]), one) for one in cases]
    flower = [(peer(one), one) for one in cases if one.get("beside")]
    lines = []
    if worst:
        value, phase, one = max(worst, key=lambda each: each[0])
        where = f"{phase}, {', '.join(name(one))} sites"
        lines.append(
            ["phase, hush of the floor", f"{value:.2f} times ({where})", f"at most {PHASE:g}", _met(value <= PHASE)]
        )
        value, one = max(rounds, key=lambda each: each[0])
        where = f"{', '.join(name(one))} sites"
        lines.append(
            ["round, hush of the floor", f"{value:.2f} times ({where})", f"at most {ROUND:g}", _met(value <= ROUND)]
        )
    if flower:
        value, one = min(flower, key=lambda each: each[0])
        where = f"{', '.join(name(one))} sites"
        lines.append(
            ["phase, Flower of hush", f"{value:.0f} times ({where})", f"at least {PEER:g}", _met(value >= PEER)]
        )
    return _table(["the worst of all cases", "measured", "goal", ""], lines)


def _met(met: bool) -> str:
    return "met" if met else "**missed**"


def _rounds(one: Row) -> list[str]:
    turns = one["turns"]
    each = {over: [turn[over] for turn in turns] for over in (HUSH, FLOOR)}
    spent = [f"{median(row['cpu'] for row in each[over]):.3f}" for over in (HUSH, FLOOR)]
    sites = [f"{sum(row['sites'] for row in each[over]) / len(turns):.2f}" for over in (HUSH, FLOOR)]
    memory = [f"{max(row['memory'] for row in each[over]) / 2**20:,.0f}" for over in (HUSH, FLOOR)]
    times = [_ms([row["seconds"] for row in each[over]]) for over in (HUSH, FLOOR)]
    quotient = f"{ratio(turns, lambda row: row['seconds']):.2f}"
    return [*name(one), *times, quotient, *spent, *sites, *memory, f"{one['idle']:.3f}", str(len(turns))]


def _phases(one: Row) -> list[list[str]]:
    found = []
    for phase, value in phases(one).items():
        times = [_ms([turn[over]["phases"][phase] for turn in one["turns"]]) for over in (HUSH, FLOOR)]
        found.append([*name(one), phase, *times, f"{value:.2f}"])
    return found


def _bytes(one: Row) -> list[str]:
    def mean(over: str, kind: str, way: str) -> str:
        return f"{median(turn[over][kind][way] for turn in one['turns']):,.0f}"

    counted = [mean(HUSH, "counted", way) for way in ("up", "down")]
    socket = [mean(over, "socket", way) for over in (HUSH, FLOOR) for way in ("up", "down")]
    return [*name(one), *counted, *socket, *(f"{100 * overhead(one, over):.2f} %" for over in (HUSH, FLOOR))]


def _beside(one: Row) -> list[str]:
    turns = one["beside"]
    times = [median(sum(turn[over]["phases"].values()) for turn in turns) for over in (HUSH, FLOOR)]
    spent = [
        median(turn["Flower"]["cpu"] for turn in turns),
        sum(turn[HUSH]["cpu"] + turn[HUSH]["sites"] for turn in turns) / len(turns),
    ]
    return [
        *name(one),
        f"{median(turn['Flower']['seconds'] for turn in turns):.2f}",
        *(f"{value:.3f}" for value in times),
        *(f"{peer(one, over):.0f}" for over in (HUSH, FLOOR)),
        *(f"{value:.2f}" for value in spent),
        f"{spent[0] / spent[1]:.0f}",
    ]


def page(results: Row) -> str:
    """Everything, as Markdown."""
    cases = [one for one in results["cases"] if one.get("turns")]
    flag = (" --quick" if results["quick"] else "") + (f" --poll {results['poll']:g}" if results["poll"] else "")
    lines = [
        "# A network on one machine, measured",
        "",
        f"`python benchmarks/network.py{flag}`, {results['when']}.",
        "",
    ]
    lines += [f"- {fact}: {value}" for fact, value in results["machine"].items()]
    lines += _goals(cases)
    lines += ["", "Left out:" if any("failed" in one for one in results["cases"]) else "Nothing was left out."]
    lines += [f"- {', '.join(name(one))} sites: {one['failed']}" for one in results["cases"] if "failed" in one]
    first = ["numbers", "sum", "sites"]
    lines += [
        "",
        "## Rounds",
        "",
        "Milliseconds; CPU seconds of a round and peak MB at the coordinator; CPU seconds of",
    ]
    lines += ["all sites; the cores that the coordinator takes while nothing happens."]
    head = [
        "hush",
        "floor",
        "ratio",
        "CPU, hush",
        "floor",
        "sites' CPU, hush",
        "floor",
        "MB, hush",
        "floor",
        "idle",
        "turns",
    ]
    lines += _table([*first, *head], [_rounds(one) for one in cases])
    lines += ["", "## Phases", "", "Milliseconds from the first message to the last answer, the sites' work included."]
    lines += _table([*first, "phase", "hush", "floor", "ratio"], [row for one in cases for row in _phases(one)])
    lines += ["", "## Bytes of a client in a round", "", "Counted by hush, and on the socket as the kernel counts TCP:"]
    lines += ["with TLS, HTTP/2, gRPC and, for hush, its envelope and nvflare's header around each message."]
    head = ["counted up", "down", "socket up, hush", "down", "up, floor", "down", "more, hush", "more, floor"]
    lines += _table([*first, *head], [_bytes(one) for one in cases])
    beside = [one for one in cases if one.get("beside")]
    if beside:
        lines += [
            "",
            "## Beside Flower",
            "",
            "Seconds, and CPU seconds of all processes, of one message round trip of so many",
        ]
        lines += ["numbers, in turns. Flower's app trains nothing; hush and the floor train in it."]
        head = ["Flower", "hush", "floor", "Flower of hush", "of the floor", "CPU, Flower", "hush", "Flower of hush"]
        lines += _table([*first, *head], [_beside(one) for one in beside])
    return "\n".join(lines) + "\n"
