"""Tables for the terminal: one run at its end, and several side by side."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from hush.experiment.report import runs, words
from hush.experiment.report.runs import Run

_KINDS = ("payload", "protocol")
_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("last", "right"),
    ("best", "right"),
    (" kB", "left"),
    ("up", "right"),
    ("down", "right"),
    (" view", "left"),
    ("ε", "right"),
)


def summary(run: Run) -> Table:
    """How good the model is, kB per client and epsilon per adversary after the last round."""
    last = run.last
    title = f"{run.scheme} on {run.data}, {len(run.rounds):,} of {run.total:,} rounds"
    table = Table(title=Text(title), box=SIMPLE_HEAD, title_justify="left", show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for key in runs.measures(run):
        found = runs.accuracies(run, key)
        table.add_row(f"{words.measure(key)}, last", *_at(found[-1] if found else None, "round"))
        table.add_row(f"{words.measure(key)}, best", *_at(runs.best(run, key), "round"))
    aborted = [row for row in run.rounds if row.get("aborted")]
    if aborted:
        table.add_row("rounds aborted", f"{len(aborted):,}", aborted[-1].get("reason") or "too few clients answered")
    table.add_section()
    for way in ("up", "down"):
        parts = [
            f"{kind} {words.kB(runs.kilobytes(last, way, kind))} (at most "
            f"{words.kB(runs.kilobytes(last, way, kind, 'max'))})"
            for kind in ("payload", "protocol")
        ]
        mean = words.kB(runs.kilobytes(last, way))
        table.add_row(f"kB {way} per client", mean, "mean; " + ", ".join(parts), end_section=way == "down")
    for phase, ways in runs.phases(last).items():
        parts = [f"{way} {words.kB(kB['mean'])} (at most {words.kB(kB['max'])})" for way, kB in ways.items()]
        mean = words.kB(sum(kB["mean"] for kB in ways.values()))
        table.add_row(f"kB, sum: {phase}", mean, "mean; " + ", ".join(parts))
    table.add_section()
    for view in runs.views(last):
        table.add_row(f"epsilon, {view}", words.epsilon(runs.epsilon(last, view)), _epsilon_note(run, view))
    return table


def repeated(several: Sequence[Run]) -> Table:
    """Worst and best over repetitions of one run, and what they cost."""
    run, found = several[0], runs.spread(several)
    title = f"{run.scheme} on {run.data}, {run.total:,} rounds, {len(several)} repetitions"
    table = Table(title=Text(title), box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("")
    for head in ("worst", "best"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, ends in found.items():
        for end, values in ends.items():
            row = (words.accuracy(values[side]) for side in ("worst", "best"))
            table.add_row(f"{words.measure(name)}, {end} round", *row)
    table.add_section()
    for kind in ("payload", "protocol"):
        sent = [runs.kilobytes(one.last, "up", kind) for one in several]
        table.add_row(f"kB up per client, {kind}", words.kB(max(sent)), words.kB(min(sent)))
    for view in runs.views(run.last):
        spent = [runs.epsilon(one.last, view) for one in several]
        known = [value for value in spent if value is not None]
        ends_of = (max(known), min(known)) if len(known) == len(spent) else (None, None)
        table.add_row(f"epsilon, {view}", *(words.epsilon(value) for value in ends_of))
    return table


def comparison(several: Sequence[Run]) -> Table:
    """One row per run: what it protects, its measure, mean kB per client, epsilon of the worst client by view."""
    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), caption=_caption(several), caption_justify="left"
    )
    table.add_column("run", overflow="fold")
    for head, justify in _COLUMNS:
        table.add_column(head, justify=justify, no_wrap=True)
    for run, label in zip(several, labels(several), strict=True):
        last, found, views = run.last, runs.accuracies(run), runs.views(run.last)
        table.add_row(
            Text(f"{label}\n{run.scheme}\n{run.data}\n{words.guarantee(run.protects, run.relation)}"),
            "\n".join(_at(found[-1] if found else None, "at")),
            "\n".join(_at(runs.best(run), "at")),
            "\n".join(f" {kind}" for kind in _KINDS),
            *("\n".join(words.kB(runs.kilobytes(last, way, kind)) for kind in _KINDS) for way in ("up", "down")),
            "\n".join(f" {view}" for view in views),
            "\n".join(words.epsilon(runs.epsilon(last, view)) for view in views),
            end_section=True,
        )
    return table


def _caption(several: Sequence[Run]) -> str:
    """What the columns are, and which of them may be compared."""
    names = list(dict.fromkeys(words.better(runs.measure(run), runs.larger(run)) for run in several))
    found = [f"{' or '.join(names)} at the last and the best round; kB per client, mean over all"]
    private = [run for run in several if run.protects]
    if private:
        deltas = ", ".join(dict.fromkeys(words.delta(run.delta) for run in private))
        found.append(f"ε of the worst client, delta {deltas}, against each view")
    relations = dict.fromkeys(f"{words.guarantee(run.protects, run.relation)}: {run.relation}" for run in private)
    if len(relations) > 1:
        found.append("ε of different levels or relations promise different things: do not compare them")
    return "\n".join([*found, *relations])


def labels(several: Sequence[Run]) -> list[str]:
    """Each run's name, or its path where two runs have the same name."""
    names = [run.name for run in several]
    return [run.name if names.count(run.name) == 1 else str(run.path) for run in several]


def _at(point: tuple[int, float] | None, word: str) -> tuple[str, str]:
    if point is None:
        return words.accuracy(None), ""
    return words.accuracy(point[1]), f"{word} {point[0]}"


def _epsilon_note(run: Run, view: str) -> str:
    row = run.last
    if runs.epsilon(row, view) is None:
        return f"no guarantee; {words.sees(view, run.level, run.secure, run.turns)}"
    median = runs.epsilon(row, f"{view}_median")
    middle = f"median client {words.epsilon(median)}; " if f"{view}_median" in row["epsilon"] else ""
    return f"delta {words.delta(run.delta)}; {middle}{words.sees(view, run.level, run.secure, run.turns)}"
