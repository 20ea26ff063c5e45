"""The privacy card in HTML: part of a run's page, and a page of its own to print and to sign by hand."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from hush.experiment.report import assets
from hush.privacy import findings
from hush.privacy.sections import MEDIAN, SHOWN, UNAUDITED, Named, attacks, sections
from hush.privacy.shown import shown

_DENSE = 7500  # characters of HTML: more are set smaller, so that they fit on a page
_BY_HAND = ("Place", "Date", "Name and office", "Signature")


def body(card: Mapping[str, Any]) -> str:
    """All that the card says but its title and its warnings."""
    found = sections(card)
    lists = "".join(
        f"<div><h3>{escape(title)}</h3><ul>{_items(items or ['nothing'])}</ul></div>" for title, items in found.lists
    )
    return (
        f"{_named(found.facts)}{_adversaries(found.adversaries)}{_named(found.notes)}{_audit(found.audit)}"
        f'<div class="lists">{lists}</div>' + (f"<h3>Details</h3>{_named(found.details)}" if found.details else "")
    )


def document(card: Mapping[str, Any]) -> str:
    """One page of A4, with lines to sign on; it holds its own style, no script, and asks for nothing."""
    warned = _items(card.get("warnings", ()))
    warnings = f'<div class="warnings"><strong>Before you rely on it</strong><ul>{warned}</ul></div>' if warned else ""
    lines = "".join(f"<div>{name}</div>" for name in _BY_HAND)
    title = f"Privacy card: {escape(str(card['scheme']))}"
    whole = f"<h1>{title}</h1>{warnings}{body(card)}<footer>{lines}</footer>".replace(" %", "&nbsp;%")
    return assets.sheet(title, f'<div class="dense">{whole}</div>' if len(whole) > _DENSE else whole)


def _items(sentences: Sequence[Any]) -> str:
    return "".join(f"<li>{escape(str(item))}</li>" for item in sentences)


def _named(found: Named) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(text))}</dd>" for name, text in found)
    return f'<dl class="facts">{rows}</dl>' if rows else ""


def _adversaries(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    lines = "".join(
        f'<tr><th scope="row"><strong>{escape(str(one["name"]))}</strong></th>'
        f'<td class="text">{_sentences(one, "sees", "helped")}</td>'
        f'<td class="number">{escape(shown(one["epsilon"]))}</td>'
        f'<td class="number">{escape(shown(one.get("epsilon_median", "–")))}</td>'
        f'<td class="text">{_sentences(one, "meaning")}</td></tr>'
        for one in rows
    )
    heads = _heads("Against", "Who that is", "Epsilon", "Median", "What it means")
    return f'<div class="scroll"><table>{heads}<tbody>{lines}</tbody></table></div><p class="soft">{MEDIAN}</p>'


def _audit(rows: Sequence[Mapping[str, Any]] | None) -> str:
    if rows is None:
        return ""
    if not rows:
        return f'<h3>Audit</h3><p class="soft">{UNAUDITED}</p>'
    lines = "".join(
        f"<tr{' class=alarm' if one['alarm'] else ''}>"
        f'<th scope="row"><strong>{escape(str(one["attack"]))}</strong></th>'
        f'<td>{escape(str(one["view"]))}</td><td class="number">{escape(shown(one["stated"]))}</td>'
        f'<td class="number">{escape(findings.bound(one["shown"]))}</td>'
        f'<td class="number">{findings.sure(one["confidence"])}</td>'
        f'<td class="text">{"an alarm: more than is proven" if one["alarm"] else ""}</td></tr>'
        for one in rows
    )
    heads = _heads("Attack", "View", "Proven", "Shown", "Confidence", "")
    said = "".join(f"<li>{escape(text)}</li>" for text in (SHOWN, *attacks(rows)))
    return (
        f'<h3>Audit</h3><div class="scroll"><table class="audit">{heads}<tbody>{lines}</tbody></table></div>'
        f"<ul>{said}</ul>"
    )


def _heads(*names: str) -> str:
    numbers = ("Epsilon", "Median", "Proven", "Shown", "Confidence")
    cells = (f'<th scope="col"{" class=number" if name in numbers else ""}>{name}</th>' for name in names)
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def _sentences(row: Mapping[str, Any], *names: str) -> str:
    return escape(". ".join(str(row[name]) for name in names if row.get(name)))
