"""What `hush serve` shows: a list of runs, and several of them side by side."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from hush.experiment.report import assets, charts, runs, series, svg, words
from hush.experiment.report.runs import Run

REFRESH_SECONDS = 5
MOST = 8  # runs in one figure: as many colours as can be distinguished


def listing(found: Mapping[str, Run | str]) -> str:
    """Every run by its name, newest first as given; one that cannot be read says why."""
    rows = "".join(_row(name, one) if isinstance(one, Run) else _broken(name, one) for name, one in found.items())
    heads = "".join(
        f'<th scope="col" class="number">{head}</th>' for head in ("Rounds", "Last", "Best", "kB up", "Epsilon")
    )
    table = (
        '<form action="/compare" method="get"><div class="scroll"><table class="wide"><thead><tr>'
        f'<th scope="col"></th><th scope="col">Run</th><th scope="col">Scheme and data</th>{heads}'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
        '<p><button class="go">Compare the ticked ones</button></p></form>'
    )
    body = (
        f'<header><h1>Runs</h1><p class="soft">{len(found):,} here, newest first. Last and best are of the measure'
        " named, kB up the mean per client, epsilon that against the adversary named. It is shown as the files say it: "
        "<code>hush privacy card</code> checks it.</p></header>"
        f"{table if found else '<p>No run yet: <code>hush run</code> makes one.</p>'}"
    )
    return assets.document("Runs", body, series.encoded([], {}), REFRESH_SECONDS, served=True)


def _row(name: str, run: Run) -> str:
    link = f'<a href="/run/{quote(name)}">{escape(name)}</a>'
    tick = f'<input type="checkbox" name="run" value="{escape(name)}" aria-label="compare {escape(name)}">'
    what = f"{escape(run.scheme)} on {escape(run.data)}"
    done = f"{len(run.rounds):,} of {run.total:,}"
    if not run.rounds:
        return f'<tr><td></td><td>{link}</td><td>{what}</td><td class="number">{done}</td><td colspan="4"></td></tr>'
    found, best, view = runs.accuracies(run), runs.best(run), series.view(run)
    cells = (
        done,
        words.accuracy(found[-1][1] if found else None),
        words.accuracy(best[1] if best else None),
        words.kB(runs.kilobytes(run.last, "up")),
        "none" if view is None else f"{words.epsilon(runs.epsilon(run.last, view))} <small>{view}, {run.level}</small>",
    )
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    measure = f'<br><small class="soft">{escape(words.measure(runs.measure(run)))}</small>'
    return f"<tr><td>{tick}</td><td>{link}</td><td>{what}{measure}</td>{numbers}</tr>"


def _broken(name: str, why: str) -> str:
    return f'<tr><td></td><td>{escape(name)}</td><td colspan="6" class="warn">{escape(why)}</td></tr>'


def comparison(several: Mapping[str, Run]) -> str:
    """Some runs: one figure, one table. Epsilons of different kinds share no axis."""
    listed = list(several.values())
    tables, charted, figures = [series.table(run) for run in listed], dict[str, Any](), ""
    kinds = {kind for run in listed if (kind := _kind(run))[0] is not None}
    view = next(iter(kinds))[0] if len(kinds) == 1 else None
    for key in dict.fromkeys(runs.measure(run) for run in listed):
        at = [n for n, run in enumerate(listed) if runs.measure(run) == key and "measure" in tables[n]]
        if at:
            drawn, chart = _measured(key, at, listed, list(several), tables, view, f"measure-{len(charted)}")
            figures += drawn
            charted[f"measure-{len(charted)}"] = chart
    note = ""
    if len(kinds) > 1:
        note = "Epsilon is no axis here: these runs differ in what it is of (adversary, level, neighbours or delta)."
    elif view is not None and any(series.view(run) is None for run in listed):
        note = "Against epsilon, runs without a guarantee are left out."
    body = (
        f'<nav><a href="/">All runs</a></nav><header><h1>{len(listed)} runs side by side</h1></header>'
        f'<section>{figures}<p class="soft">{note}</p></section><section>{_table(several)}</section>'
    )
    going = any(len(run.rounds) < run.total for run in listed)
    return assets.document(
        "Comparison", body, series.encoded(tables, charted), REFRESH_SECONDS if going else None, served=True
    )


def _kind(run: Run) -> tuple[Any, ...]:
    """What an epsilon is of; those of different kinds cannot be compared."""
    return series.view(run), run.level, run.delta, str((run.card or {}).get("relation"))


def _measured(
    key: str,
    at: Sequence[int],
    listed: Sequence[Run],
    names: Sequence[str],
    tables: Sequence[series.Table],
    view: str | None,
    place: str,
) -> tuple[str, dict[str, Any]]:
    name = words.measure(key)
    lines = [svg.Line(names[n], runs.accuracies(listed[n], key), runs.best(listed[n], key)) for n in at]
    values = [y for line in lines for _, y in line.points]
    label = f"{name} against rounds: " + ", ".join(
        f"{line.name} {words.accuracy(line.points[-1][1])}" for line in lines
    )
    drawn = svg.chart(lines, svg.linear(min(values), max(values)), words.accuracy, label, name)
    note = "On each run's own test rows. A ring marks the best round."
    made = charts.figure(name[0].upper() + name[1:], note, drawn, place, tall=True)
    chart = {
        "unit": name,
        "axes": series.axes([tables[n] for n in at], view),
        "lines": [{"name": names[n], "of": n, "y": "measure", "mark": series.mark(listed[n])} for n in at],
    }
    return made, chart


def _table(several: Mapping[str, Run]) -> str:
    """One column a run: what it is, how good, what it took, whom it protects."""
    names = "".join(f'<th scope="col"><a href="/run/{quote(name)}">{escape(name)}</a></th>' for name in several)
    rows = [
        ("Scheme", [escape(run.scheme) for run in several.values()]),
        ("Data", [escape(run.data) for run in several.values()]),
        ("Rounds", [f"{len(run.rounds):,} of {run.total:,}" for run in several.values()]),
        ("Measure", [escape(words.measure(runs.measure(run))) for run in several.values()]),
        ("Last", [_point(next(iter(reversed(runs.accuracies(run))), None)) for run in several.values()]),
        ("Best", [_point(runs.best(run)) for run in several.values()]),
        *(
            (f"kB {way}, {kind}", [words.kB(runs.kilobytes(run.last, way, kind)) for run in several.values()])
            for way in ("up", "down")
            for kind in ("payload", "protocol")
        ),
        ("Protected", [_protected(run) for run in several.values()]),
        *((f"Epsilon, {view}", [_epsilon(run, view) for run in several.values()]) for view in runs.VIEWS),
    ]
    drawn = "".join(
        f'<tr><th scope="row">{head}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for head, cells in rows
        if set(cells) != {"–"}
    )
    return (
        f'<div class="scroll"><table><thead><tr><th></th>{names}</tr></thead><tbody>{drawn}</tbody></table></div>'
        '<p class="soft">kB: mean per client since the start. Epsilon: of the worst client.</p>'
    )


def _point(found: tuple[int, float] | None) -> str:
    return "–" if found is None else f"{words.accuracy(found[1])} <small>at round {found[0]:,}</small>"


def _protected(run: Run) -> str:
    return "nobody" if series.view(run) is None else f"{words.PROTECTED[run.level]}, δ = {words.delta(run.delta)}"


def _epsilon(run: Run, view: str) -> str:
    return words.epsilon(runs.epsilon(run.last, view)) if view in runs.views(run.last) else "–"
