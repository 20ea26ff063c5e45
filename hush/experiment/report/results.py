"""The page's results by client and by class, with intervals, and where the live weights lie."""

from html import escape
from typing import Any

from hush.experiment.report import words
from hush.experiment.report.runs import Run, finite

SPAN = 200  # the width of a drawn interval, in units of its own


def groups(run: Run) -> str:
    """Results of the last model by client and by class, where the test rows say whose and what they are."""
    found = run.about.get("results") or {}
    clients, classes = found.get("clients") or [], found.get("classes") or []
    if not clients and not classes:
        return ""
    own = run.config["data"].get("partition") == "sites"
    whose = "the server's own test rows" if own else "test rows that the simulation took from each client"
    parts = [
        f'<section id="results"><h2>Results by {" and ".join(_heads(clients, classes))}</h2>'
        f"<p>Of the model of round {int(found['round']):,}, with 95 % confidence intervals. Test rows are not protected"
        f"{f'; by client these are {whose}' if clients else ''}.</p>"
    ]
    if clients:
        what = words.measure(str(clients[0].get("measure")))
        parts.append(_table("Client", escape(what[0].upper() + what[1:]), clients))
    if classes:
        parts.append(_table("Class", "Right", classes))
    return "".join([*parts, "</section>"])


def _heads(clients: list[Any], classes: list[Any]) -> list[str]:
    return [name for name, listed in (("client", clients), ("class", classes)) if listed]


def _table(head: str, measure: str, listed: list[dict[str, Any]]) -> str:
    ones = any("ones" in one for one in listed)
    rows = "".join(
        f'<tr><th scope="row">{escape(str(one["name"]))}</th><td class="number">{int(one["rows"]):,}</td>'
        + (f'<td class="number">{int(one["ones"]):,}</td>' if ones else "")
        + f'<td class="number">{words.accuracy(one.get("value"))}</td><td class="number">{_between(one)}</td>'
        f"<td>{_interval(one)}</td></tr>"
        for one in listed
    )
    label = '<th scope="col" class="number">Of label 1</th>' if ones else ""
    return (
        '<div class="scroll"><table class="groups"><thead><tr>'
        f'<th scope="col">{head}</th><th scope="col" class="number">Test rows</th>{label}'
        f'<th scope="col" class="number">{measure}</th>'
        '<th scope="col" class="number">95 % interval</th><th scope="col">0 to 1</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _between(one: dict[str, Any]) -> str:
    low, high = one.get("low"), one.get("high")
    return f"{words.accuracy(low)} to {words.accuracy(high)}" if finite(low) and finite(high) else "–"


def _interval(one: dict[str, Any]) -> str:
    if not all(finite(one.get(key)) for key in ("value", "low", "high")):
        return ""
    low, value, high = (4 + (SPAN - 8) * min(1.0, max(0.0, float(one[key]))) for key in ("low", "value", "high"))
    return (
        f'<svg class="bar" viewBox="0 0 {SPAN} 16" aria-hidden="true">'
        f'<line class="mid" x1="4" x2="{SPAN - 4}" y1="8" y2="8"/>'
        f'<line class="mid" x1="{SPAN / 2}" x2="{SPAN / 2}" y1="2" y2="14"/>'
        f'<line class="span" x1="{low:.1f}" x2="{high:.1f}" y1="8" y2="8"/>'
        f'<circle cx="{value:.1f}" cy="8" r="4"/></svg>'
    )


def weights(run: Run) -> str:
    """How many weights of each tensor train and travel."""
    found = run.about.get("coordinates") or {}
    layers = found.get("layers") or []
    if not layers:
        return ""
    every, live = sum(int(one["weights"]) for one in layers), sum(int(one["live"]) for one in layers)
    kept = "the same in every round" if found.get("fixed") else "drawn anew in each round; these are the last one's"
    said = f"All {every:,} weights" if live == every else f"{live:,} of {every:,} weights ({live / every:.2%})"
    rows = "".join(
        f'<tr><th scope="row"><code>{escape(str(one["name"]))}</code></th>'
        f"<td>{'&nbsp;×&nbsp;'.join(f'{int(n):,}' for n in one['shape'])}</td>"
        f'<td class="number">{int(one["weights"]):,}</td><td class="number">{int(one["live"]):,}</td>'
        f'<td class="number">{int(one["live"]) / max(1, int(one["weights"])):.1%}</td><td>{_bar(one)}</td></tr>'
        for one in layers
    )
    return (
        f'<section id="weights"><h2>Live weights</h2><p>{said} train and travel, {kept}.</p><div class="scroll">'
        '<table class="groups"><thead><tr><th scope="col">Layer</th><th scope="col">Shape</th>'
        '<th scope="col" class="number">Weights</th><th scope="col" class="number">Live</th>'
        '<th scope="col" class="number">Share</th><th scope="col">0 to 100 %</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _bar(one: dict[str, Any]) -> str:
    part = SPAN * int(one["live"]) / max(1, int(one["weights"]))
    return (
        f'<svg class="bar" viewBox="0 0 {SPAN} 16" aria-hidden="true">'
        f'<rect class="all" x="0" y="5" width="{SPAN}" height="6" rx="2"/>'
        f'<rect class="part" x="0" y="5" width="{part:.1f}" height="6" rx="2"/></svg>'
    )
