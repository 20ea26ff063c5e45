"""The page's last part: the data and what was dropped of it, how to run it again, and every setting."""

import shlex
from html import escape
from typing import Any

from hush.experiment.report.runs import Run


def data(run: Run) -> str:
    """Where the rows are from, how many there are, and what each rule dropped or changed."""
    found = run.about.get("data") or {}
    if not found:
        return ""
    rows = found.get("rows") or {}
    facts = [
        ("Set", run.data),
        ("Source", str(found.get("source"))),
        ("Rows", ", ".join(f"{int(count):,} {name}" for name, count in rows.items() if count)),
        ("A row", f"{' × '.join(str(n) for n in found.get('shape') or [1])} numbers"),
        ("Target", "a number" if found.get("classes") == 1 else f"one of {found.get('classes')} classes"),
        ("Checked", str(found.get("digest"))),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return (
        f'<section id="data"><h2>Data</h2><dl class="facts">{listed}</dl>{_rules(found.get("rules") or [])}</section>'
    )


def _rules(rules: list[dict[str, Any]]) -> str:
    took = [rule for rule in rules if rule.get("dropped") or rule.get("changed")]
    if not took:
        return ""
    dropped = sum(int(rule["dropped"]) for rule in took if rule.get("of") == "rows")
    first = next((int(rule["before"]) for rule in rules if rule.get("of") == "rows"), 0)
    rows = "".join(
        f'<tr><th scope="row">{escape(str(rule["name"]))}</th><td class="text">{escape(str(rule["why"]))}</td>'
        f"<td>{escape(str(rule['of']))}</td>"
        + "".join(f'<td class="number">{int(rule[key]):,}</td>' for key in ("before", "dropped", "changed"))
        + "</tr>"
        for rule in took
    )
    return (
        f"<h3>Dropped and changed</h3><p>{dropped:,} of {first:,} rows were dropped.</p>"
        '<div class="scroll"><table class="wide"><thead><tr>'
        '<th scope="col">Rule</th><th scope="col">Why</th><th scope="col">Of</th>'
        '<th scope="col" class="number">Before</th>'
        '<th scope="col" class="number">Dropped</th><th scope="col" class="number">Changed</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def again(run: Run) -> str:
    """The command that runs it once more."""
    version = f" It was run by hush {escape(str(run.about['hush']))}." if run.about.get("hush") else ""
    return (
        '<section id="again"><h2>Run it again</h2><p><code>config.toml</code> beside this page has every setting. On'
        f" the same machine, by the same versions, it gives the same bits.{version}</p>"
        f"<pre><code>{escape(_command(run))}</code></pre></section>"
    )


def _command(run: Run) -> str:
    folder = run.name
    files = f"{shlex.quote(f'{folder}/config.toml')} --out {shlex.quote(f'{folder}-again')}"
    return f"hush server {files} --kit KIT" if run.config["data"].get("partition") == "sites" else f"hush run {files}"


def settings(run: Run) -> str:
    """Every setting, by table."""
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
    return f'<section id="settings"><h2>Settings</h2><div class="settings">{drawn}</div></section>'


def _flat(table: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    """A table's keys and values as text, inner tables with dotted keys, as TOML writes them."""
    rows: list[tuple[str, str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{before}{key}.")
        else:
            rows.append((before + key, str(value).lower() if isinstance(value, bool) else str(value)))
    return rows
