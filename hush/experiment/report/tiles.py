"""The head of a run's page: what it is, how far it is, what a reader must know first, and its key figures."""

from html import escape

from hush.experiment.report import runs, words
from hush.experiment.report.runs import Run

SIMULATED = "simulation seed"  # how the card names noise that a seed drives


def head(run: Run, going: bool) -> str:
    """Title, facts, notices, and how far it is."""
    done, total = len(run.rounds), run.total
    facts = [f"run {run.name}", f"model {run.config['model'].get('name', 'custom')}"]
    clients = run.config["data"].get("clients")
    if isinstance(clients, int):
        facts.append(f"{clients:,} clients")
    if run.rounds:
        facts.append(f"mean cohort {sum(row.get('cohort', 0) for row in run.rounds) / done:,.1f}")
        facts.append(f"{sum(row.get('seconds', 0.0) for row in run.rounds) / done:,.2g} s a round")
    if run.about.get("hush"):
        facts.append(f"hush {run.about['hush']}")
    title = f"{escape(run.scheme)} on {escape(run.data)}, <span>{done:,} of {total:,} rounds</span>"
    found = f'<header><h1>{title}</h1><p class="soft">{escape(" · ".join(facts))}</p>'
    if going:
        found += f'<progress max="{total}" value="{done}" aria-label="rounds done">{done}/{total}</progress>'
    return found + _aborted(run) + _simulated(run) + _warnings(run) + "</header>"


def _aborted(run: Run) -> str:
    aborted = sum(bool(row.get("aborted")) for row in run.rounds)
    if not aborted:
        return ""
    kept = "round aborted: nothing of it was" if aborted == 1 else "rounds aborted: nothing of them was"
    why = next((row["reason"] for row in reversed(run.rounds) if row.get("reason")), "too few clients answered")
    return f'<p class="warn">{aborted:,} {kept} released. {escape(str(why))}.</p>'


def _simulated(run: Run) -> str:
    if not str((run.card or {}).get("noise_source", "")).startswith(SIMULATED):
        return ""
    return (
        '<p class="notice"><strong>Simulated: noise from a seed.</strong> Who knows the seed can draw the same noise'
        " and take it off. The epsilons are those that a deployment of the same settings would have.</p>"
    )


def _warnings(run: Run) -> str:
    found = (run.card or {}).get("warnings") or []
    lines = "".join(f"<li>{escape(str(line))}</li>" for line in found)
    return f'<div class="warnings"><strong>Before you rely on it</strong><ul>{lines}</ul></div>' if lines else ""


def tiles(run: Run) -> str:
    """The measure, bytes per client, and epsilon of each adversary."""
    last, found = run.last, []
    for key in runs.measures(run):
        known, best = runs.accuracies(run, key), runs.best(run, key)
        for word, point in (("last", known[-1] if known else None), ("best", best)):
            number, value = point or (None, None)
            found.append(_tile(escape(f"{words.title(key)}, {word}"), words.accuracy(value), _at(number)))
    for way in ("up", "down"):
        payload, protocol, most = (
            words.kB(runs.kilobytes(last, way, kind, statistic))
            for kind, statistic in (("payload", "mean"), ("protocol", "mean"), ("payload", "max"))
        )
        mean = words.kB(runs.kilobytes(last, way))
        note = f"mean: payload {payload}, protocol {protocol}; at most {most} payload"
        found.append(_tile(f"{way.capitalize()} per client", f"{mean} <small>kB</small>", note))
    guarantees = []
    for view in runs.views(last):
        value = runs.epsilon(last, view)
        note = f"δ = {words.delta(run.delta)}" if value is not None else "no guarantee"
        if value is not None and f"{view}_median" in last["epsilon"]:
            note += f"; median client {words.epsilon(runs.epsilon(last, f'{view}_median'))}"
        guarantees.append(_tile(f'Epsilon, <a href="#{view}">{view}</a>', words.epsilon(value), note))
    return "".join(f'<div class="tiles">{"".join(row)}</div>' for row in (found, guarantees))


def _tile(title: str, value: str, note: str) -> str:
    return f'<dl class="tile"><dt>{title}</dt><dd class="value">{value}</dd><dd>{escape(note)}</dd></dl>'


def _at(number: int | None) -> str:
    return f"round {number:,}" if number is not None else "not evaluated yet"
