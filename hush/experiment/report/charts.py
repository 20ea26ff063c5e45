"""The three figures of the page: the run's measure, bytes and epsilon against rounds."""

from html import escape

from hush.experiment.report import runs, svg, words
from hush.experiment.report.runs import Run


def accuracy(run: Run) -> str:
    """The run's measure in the evaluated rounds, the best one ringed."""
    found, name = runs.accuracies(run), words.measure(runs.measure(run))
    title = words.title(runs.measure(run))
    if not found:
        return _figure(title, "No round has been evaluated yet.", "")
    best = (max if runs.larger(run) else min)(found, key=lambda point: point[1])
    values = [value for _, value in found]
    ends = f"last {words.accuracy(values[-1])}, best {words.accuracy(best[1])} at round {best[0]}"
    line = svg.Line("test set", found, best)
    drawn = svg.chart(
        [line],
        svg.linear(min(values), max(values)),
        words.accuracy,
        f"{title} against rounds: {ends}",
        name,
    )
    return _figure(title, f"The ring marks the best round, {best[0]:,}.", drawn)


def sent(run: Run) -> str:
    """Kilobytes per client, up and down."""
    lines = [svg.Line(way, [(row["round"], runs.kilobytes(row, way)) for row in run.rounds]) for way in ("up", "down")]
    most = max(y for line in lines for _, y in line.points)
    label = "Kilobytes per client against rounds: " + ", ".join(
        f"{line.name} {words.kB(line.points[-1][1])}" for line in lines
    )
    drawn = svg.chart(lines, svg.linear(0, most or 1), lambda value: f"{words.kB(value)} kB", label, "kB per client")
    note = "Sum since the start, payload and protocol, mean over all clients. 1 kB = 1,000 bytes."
    return _figure("Bytes per client", note, drawn)


def epsilon(run: Run) -> str:
    """Epsilon of the worst client per adversary, or the word none."""
    lines = [
        svg.Line(
            view,
            [(row["round"], value) for row in run.rounds if (value := runs.epsilon(row, view)) is not None],
        )
        for view in runs.views(run.last)
    ]
    lines = [line for line in lines if line.points]
    if not lines:
        return _figure("Epsilon", "none: this scheme has no differential privacy guarantee.", "")
    values = [y for line in lines for _, y in line.points]
    above = [value for value in values if value > 0]
    # Against an upload epsilon in the hundreds, a linear axis would lay the model's flat on the floor.
    if above and max(above) > 8 * min(above):
        lines = [svg.Line(line.name, [(x, y) for x, y in line.points if y > 0]) for line in lines]
        axis, unit = svg.logarithmic(min(above), max(above)), "epsilon, log scale"
    else:
        axis, unit = svg.linear(0, max(values) or 1), "epsilon"
    label = "Epsilon against rounds: " + ", ".join(
        f"{view} {words.epsilon(runs.epsilon(run.last, view))}" for view in runs.views(run.last)
    )
    drawn = svg.chart(lines, axis, words.epsilon, label, unit)
    return _figure("Epsilon", f"Of the worst client, per adversary, at δ = {words.delta(run.delta)}.", drawn)


def _figure(title: str, note: str, drawn: str) -> str:
    return f"<figure><figcaption><h2>{title}</h2><p>{escape(note)}</p></figcaption>{drawn}</figure>"
