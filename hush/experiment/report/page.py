"""The page of a run: one HTML file without scripts or links to a network, rewritten as the run goes on."""

import re
from dataclasses import replace
from html import escape, unescape
from pathlib import Path
from typing import Any

from hush.data import files
from hush.experiment.report import charts, runs, words
from hush.experiment.report.runs import Run
from hush.experiment.report.style import CSS

REFRESH_SECONDS = 5


def write(path: Path) -> Path:
    """Write report.html into a run's directory, whole or not at all (a reader may have it open)."""
    run = runs.read(path)
    page = run.path / "report.html"
    files.write(page, html(run).encode())
    return page


def html(run: Run) -> str:
    """The whole page as text. It reloads itself while rounds are still to come."""
    going = len(run.rounds) < run.total
    refresh = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">' if going else ""
    body = (
        _warnings(run) + _tiles(run) + _figures(run) + _phases(run) + _privacy(run)
        if run.rounds
        else "<p>No round has finished yet.</p>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{refresh}'
        f"<title>{escape(run.name)} – hush</title><style>{CSS}</style></head><body><main>"
        f"{_head(run, going)}{body}{_settings(run)}</main></body></html>\n"
    )


def shows(text: str, run: Run) -> bool:
    """Whether a page is that of the run, whose folder may have had another name when it was written."""
    named = re.search(r"<title>(.*?) – hush</title>", text)
    return named is not None and text == html(replace(run, name=unescape(named[1])))


def _head(run: Run, going: bool) -> str:
    done, total = len(run.rounds), run.total
    facts = [f"run {run.name}", f"model {run.config['model'].get('name', 'custom')}"]
    clients = run.config["data"].get("clients")
    if isinstance(clients, int):
        facts.append(f"{clients:,} clients")
    if run.rounds:
        facts.append(f"mean cohort {sum(row.get('cohort', 0) for row in run.rounds) / done:,.1f}")
        facts.append(f"{sum(row.get('seconds', 0.0) for row in run.rounds) / done:,.2g} s a round")
    aborted = sum(bool(row.get("aborted")) for row in run.rounds)
    title = f"{escape(run.scheme)} on {escape(run.data)}, {done:,} of {total:,} rounds"
    head = f'<header><h1>{title}</h1><p class="soft">{escape(" · ".join(facts))}</p>'
    if aborted:
        kept = "round aborted: nothing of it was" if aborted == 1 else "rounds aborted: nothing of them was"
        why = next((row["reason"] for row in reversed(run.rounds) if row.get("reason")), "too few clients answered")
        head += f'<p class="warn">{aborted:,} {kept} released. {escape(why)}.</p>'
    if going:
        head += f'<progress max="{total}" value="{done}" aria-label="rounds done">{done}/{total}</progress>'
    return head + "</header>"


def _warnings(run: Run) -> str:
    if not run.warnings:
        return ""
    return f'<ul class="warn">{"".join(f"<li>{escape(sentence)}.</li>" for sentence in run.warnings)}</ul>'


def _tiles(run: Run) -> str:
    last, name = run.last, runs.measure(run)
    tiles = []
    for key in (name, "auroc") if name == "balanced" else (name,):
        found, best = runs.accuracies(run, key), runs.best(run, key)
        for word, point in (("last", found[-1] if found else None), ("best", best)):
            number, value = point or (None, None)
            title = f"{words.measure(key)}, {word}"
            tiles.append(_tile(title[0].upper() + title[1:], words.accuracy(value), _at(number)))
    for way in ("up", "down"):
        payload, protocol, most = (
            words.kB(runs.kilobytes(last, way, kind, statistic))
            for kind, statistic in (("payload", "mean"), ("protocol", "mean"), ("payload", "max"))
        )
        mean = words.kB(runs.kilobytes(last, way))
        note = f"mean: payload {payload}, protocol {protocol}; at most {most} payload"
        tiles.append(_tile(f"{way.capitalize()} per client", f"{mean} <small>kB</small>", note))
    guarantees = []
    for view in runs.views(last):
        value = runs.epsilon(last, view)
        note = f"δ = {words.delta(run.delta)}" if value is not None else "no guarantee"
        if value is not None and f"{view}_median" in last["epsilon"]:
            note += f"; median client {words.epsilon(runs.epsilon(last, f'{view}_median'))}"
        guarantees.append(_tile(f'Epsilon, <a href="#{view}">{view}</a>', words.epsilon(value), note))
    return "".join(f'<div class="tiles">{"".join(row)}</div>' for row in (tiles, guarantees))


def _tile(title: str, value: str, note: str) -> str:
    return f'<dl class="tile"><dt>{title}</dt><dd class="value">{value}</dd><dd>{escape(note)}</dd></dl>'


def _at(number: int | None) -> str:
    return f"round {number:,}" if number is not None else "not evaluated yet"


def _figures(run: Run) -> str:
    drawn = charts.accuracy(run) + charts.sent(run) + charts.epsilon(run)
    return f'<section><h2>Against rounds</h2><div class="figures">{drawn}</div></section>'


def _phases(run: Run) -> str:
    found = runs.phases(run.last)
    if not found:
        return ""
    heads = "".join(f'<th scope="col">{way}, {one}</th>' for way in ("Up", "Down") for one in ("mean", "largest"))
    rows = "".join(
        f'<tr><th scope="row"><strong>{escape(name)}</strong></th><td>{words.phase(name)}</td>'
        + "".join(
            f'<td class="number">{words.kB(ways[way][one])}</td>' for way in ("up", "down") for one in ("mean", "max")
        )
        + "</tr>"
        for name, ways in found.items()
    )
    return (
        "<section><h2>Secure sum</h2><p>What its phases took of each client since the start, in kB: mean over all"
        " clients, and the largest. It is part of the bytes above.</p>"
        '<div class="scroll"><table><thead><tr><th scope="col">Phase</th><th scope="col">What travels</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _privacy(run: Run) -> str:
    last = run.last
    stated = [view for view in runs.views(last) if runs.epsilon(last, view) is not None]
    if stated:
        statement = (
            f"After round {last['round']:,}, each adversary with an epsilon below has learnt about "
            f"{words.PROTECTED[run.level]} no more than (ε,&nbsp;δ)-differential privacy allows, with "
            f"δ = {words.delta(run.delta)}. The smaller epsilon is, the less it can have learnt."
        )
    else:
        statement = "This scheme has no differential privacy guarantee against any adversary: epsilon is none."
    rows = "".join(
        f'<tr id="{view}"><th scope="row"><strong>{view}</strong></th>'
        f"<td>{words.sees(view, run.level, run.secure, run.turns)}</td>"
        f'<td class="number">{words.epsilon(runs.epsilon(last, view))}</td>'
        f'<td class="number">{_median(last, view)}</td></tr>'
        for view in runs.views(last)
    )
    return (
        f'<section><h2>Privacy</h2><p>{statement}</p><div class="scroll"><table><thead><tr>'
        '<th scope="col">Adversary</th><th scope="col">What it sees</th>'
        '<th scope="col">Epsilon, worst client</th>'
        f'<th scope="col">Median client</th></tr></thead><tbody>{rows}</tbody></table></div>'
        '<p class="soft">The neighbour relation, the accountant, the assumptions and every event are in '
        "<code>privacy.json</code> beside this page; <code>hush privacy card</code> prints them.</p>"
        "</section>"
    )


def _median(row: runs.Row, view: str) -> str:
    key = f"{view}_median"
    return words.epsilon(runs.epsilon(row, key)) if key in row["epsilon"] else "–"


def _settings(run: Run) -> str:
    loose = {key: value for key, value in run.config.items() if not isinstance(value, dict)}
    tables = [("general", loose)] if loose else []
    tables += [(key, value) for key, value in run.config.items() if isinstance(value, dict)]
    drawn = "".join(
        f'<table><tbody><tr class="head"><th colspan="2" scope="rowgroup">{escape(name)}</th></tr>'
        + "".join(
            f'<tr><th scope="row">{escape(key)}</th><td><code>{escape(value)}</code></td></tr>'
            for key, value in _flat(table)
        )
        + "</tbody></table>"
        for name, table in tables
    )
    return f'<section><h2>Settings</h2><div class="settings">{drawn}</div></section>'


def _flat(table: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    """A table's keys and values as text, inner tables with dotted keys, as TOML writes them."""
    rows: list[tuple[str, str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{before}{key}.")
        else:
            rows.append((before + key, str(value).lower() if isinstance(value, bool) else str(value)))
    return rows
