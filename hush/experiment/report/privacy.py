"""The page's privacy: what each adversary may have learnt, and the whole card."""

import base64
from html import escape

from hush.experiment.report import card, runs, words
from hush.experiment.report.runs import Run


def privacy(run: Run) -> str:
    """The statement, the adversaries, and the card."""
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
        f'<td class="text">{words.sees(view, run.level, run.secure, run.turns)}</td>'
        f'<td class="number">{words.epsilon(runs.epsilon(last, view))}</td>'
        f'<td class="number">{_median(last, view)}</td></tr>'
        for view in runs.views(last)
    )
    return (
        f'<section id="privacy"><h2>Privacy</h2><p>{statement}</p><div class="scroll"><table><thead><tr>'
        '<th scope="col">Adversary</th><th scope="col">What it sees</th>'
        '<th scope="col" class="number">Epsilon, worst client</th>'
        f'<th scope="col" class="number">Median client</th></tr></thead><tbody>{rows}</tbody></table></div>'
        f"{_card(run)}{_inversion(run)}"
        '<p class="soft">Every event is in <code>privacy.json</code> beside this page; <code>hush privacy card</code> '
        "computes the card anew from them and compares it with this page.</p></section>"
    )


def _median(row: runs.Row, view: str) -> str:
    key = f"{view}_median"
    return words.epsilon(runs.epsilon(row, key)) if key in row["epsilon"] else "–"


def _card(run: Run) -> str:
    return (
        "" if run.card is None else f'<details id="card"><summary>Privacy card</summary>{card.body(run.card)}</details>'
    )


def _inversion(run: Run) -> str:
    """What an attack made of one upload, where one was tried."""
    place = run.path / "inversion.png"
    if not place.exists():
        return ""
    data = base64.b64encode(place.read_bytes()).decode()
    return (
        '<figure id="inversion"><img alt="a client\'s images, and below them what an attack made of its upload"'
        f' src="data:image/png;base64,{data}"><figcaption>One client\'s images, and below them what an attack made of'
        " its upload of the first round (<code>hush audit inversion</code>).</figcaption></figure>"
    )


def phases(run: Run) -> str:
    """What the phases of secure sums took."""
    found = runs.phases(run.last)
    if not found:
        return ""
    heads = "".join(
        f'<th scope="col" class="number">{way}, {one}</th>' for way in ("Up", "Down") for one in ("mean", "largest")
    )
    rows = "".join(
        f'<tr><th scope="row"><strong>{escape(name)}</strong></th><td class="text">{words.phase(name)}</td>'
        + "".join(
            f'<td class="number">{words.kB(ways[way][one])}</td>' for way in ("up", "down") for one in ("mean", "max")
        )
        + "</tr>"
        for name, ways in found.items()
    )
    return (
        '<section id="phases"><h2>Secure sum</h2><p>What its phases took of each client since the start, in kB:'
        " mean over all clients, and the largest. It is part of the bytes above.</p>"
        '<div class="scroll"><table><thead><tr><th scope="col">Phase</th><th scope="col">What travels</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )
