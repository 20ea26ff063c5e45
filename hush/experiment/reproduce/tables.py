"""Paper beside ours: the rows of a table with what was measured, as objects, on the terminal and in the READMEs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hush.data import files
from hush.errors import Mistake
from hush.experiment.report import runs
from hush.experiment.reproduce import results
from hush.experiment.reproduce.plan import Row, Table, papers
from hush.experiment.reproduce.results import Fact, Result
from hush.privacy.shown import shown

# Figures that need no run, and how they are printed; of several seeds the median.
_FACTS = {
    **dict.fromkeys(("positive", "negative", "total", "min", "max"), ".0f"),
    **dict.fromkeys(("mean", "std"), ".2f"),
    "clip": ".3g",
}


@dataclass(frozen=True)
class Line:
    """A row with all that was measured for it."""

    row: Row
    found: tuple[Result, ...]
    facts: tuple[Fact, ...]
    runs: Path | None = None  # where the directories of runs are

    def paper(self, measure: str) -> tuple[float, float] | None:
        """What was published, from the worst to the best."""
        known = self.row.published
        names = (measure, measure) if known.get(measure) else (f"{measure}_worst", f"{measure}_best")
        low, high = (known.get(name, "") for name in names)
        return (float(low), float(high)) if low and high else None

    def ours(self, measure: str) -> list[float]:
        """What was measured, one for each seed."""
        known = [one.value for one in self.facts if one.measure == measure]
        return known + [value for one in self.found if (value := one.value(measure)) is not None]

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run."""
        return sorted({one.seed for one in self.found} | {one.seed for one in self.facts})

    @property
    def state(self) -> str:
        """done, evaluated in part (its best round is that of fewer), known in part, interrupted, or not run."""
        if any(one.evaluated < one.rounds for one in self.found):
            return "evaluated in part"
        if self.seeds:
            return "done" if all(one.complete for one in self.found) else "known in part"
        setting, name = self.row.key
        place = self.runs if self.row.table.kind == "run" else None
        begun = place is not None and any((place / setting).glob(f"{name}-*/checkpoint"))
        return "interrupted" if begun else "not run"

    @cached_property
    def elsewhere(self) -> float | None:
        """What one run of it took where its committed result is from."""
        return next((one.seconds for one in self.found if one.seconds is not None), None)

    @cached_property
    def seconds(self) -> float | None:
        """What one run of it takes, by the rounds that this machine has run of its scheme in its setting."""
        if self.runs is None or self.row.table.kind != "run":
            return None
        setting, name = self.row.key
        scheme = name.partition("@")[0]
        places = [self.runs / setting / f"{name}-0", *sorted((self.runs / setting).glob(f"{scheme}*"))]
        for place in places:
            if not (place / "rounds.jsonl").exists():
                continue
            run = runs.read(place)
            if run.rounds:
                return float(run.total * sum(one["seconds"] for one in run.rounds) / len(run.rounds))
        return None

    def plain(self) -> dict[str, Any]:
        """As an object for --json."""
        measure = self.row.table.measure
        paper, ours = self.paper(measure), self.ours(measure)
        mean = sum(ours) / len(ours) if ours else None
        middle = None if paper is None else round(sum(paper) / 2, 6)
        return {
            "table": self.row.table.name,
            "row": self.row.name,
            "measure": measure,
            "paper": middle,
            "ours": None if mean is None else round(mean, 6),
            "lowest": min(ours, default=None),
            "highest": max(ours, default=None),
            "difference": None if None in (mean, middle) else round(float(mean or 0) - float(middle or 0), 6),
            "seeds": self.seeds,
            "state": self.state,
            "seconds": self.seconds,
            "runs": [
                {
                    **{name: getattr(one, name) for name in ("seed", "rounds", "evaluated", "round_best", "last")},
                    "up_kB": one.up_kB,
                    "down_kB": one.down_kB,
                    "epsilon_paper": one.epsilon_paper,
                    "epsilon": one.epsilon_model,
                    "commit": one.commit,
                    "command": one.command,
                }
                for one in self.found
            ],
        }

    def cells(self) -> dict[str, str]:
        """Column by column, as a table shows them."""
        if self.row.table.kind != "run":
            return {"row": self.row.name, **self._counted(), "seeds": str(len(self.seeds))}
        measures = [self.row.table.measure]
        if measures == ["balanced"]:
            measures.append("auroc")
        cells = {"row": self.row.name}
        for measure in measures:
            cells |= self._measured(measure)
        return {**cells, "seeds": str(len(self.seeds))} if measures == ["up_MB"] else {**cells, **self._spent()}

    def brief(self) -> dict[str, str]:
        """The columns that fit on a terminal."""
        if self.row.table.kind != "run":
            return self.cells()
        word, measured = _WORDS[self.row.table.measure], self._measured(self.row.table.measure)
        found = {
            "row": self.row.name,
            **{name: measured[f"{word}: {name}"] for name in ("paper", "ours", "difference")},
        }
        spent = self._spent()
        return {
            **found,
            "kB up, down": f"{spent['kB up: ours']}, {spent['kB down: ours']}",
            "epsilon, paper's count": spent[_EPSILON[1]],
            "that holds": spent[_EPSILON[2]],
            "seeds": str(len(self.seeds)),
        }

    def _measured(self, measure: str) -> dict[str, str]:
        word, places = _WORDS[measure], 2 if measure == "up_MB" else 3
        ours, paper = self.ours(measure), self.paper(measure)
        text, difference = "not run", "-"
        if ours:
            mean = sum(ours) / len(ours)
            spread = f" ({min(ours):.{places}f} to {max(ours):.{places}f})" if len(ours) > 1 else ""
            text = f"{mean:.{places}f}{spread}"
            difference = f"{mean - sum(paper) / 2:+.{places}f}" if paper else "-"
        return {f"{word}: paper": _range(paper), f"{word}: ours": text, f"{word}: difference": difference}

    def _spent(self) -> dict[str, str]:
        """Bytes, rounds and epsilons."""
        known, one = self.row.published, self.found[0] if self.found else None
        cells = {}
        for way in ("up", "down"):
            cells[f"kB {way}: paper"] = known.get(f"{way}_kB") or "-"
            ours = getattr(one, f"{way}_kB_best", None)
            cells[f"kB {way}: ours"] = "-" if ours is None else f"{ours:.2f}"
        heads = ("best round", "last round", *_EPSILON, "seeds", "evaluated")
        if one is None:
            return {**cells, **dict.fromkeys(heads, "-"), _EPSILON[0]: known.get("epsilon") or "-"}
        values = (
            ", ".join(str(result.round_best or "-") for result in self.found),
            f"{sum(result.last for result in self.found) / len(self.found):.3f}",
            known.get("epsilon") or "-",
            "none" if one.epsilon_paper is None else f"{one.epsilon_paper:.2f}",  # rounded as there
            *("none" if value is None else shown(value) for value in (one.epsilon_model, one.epsilon_server)),
            str(len(self.seeds)),
            f"{one.evaluated} of {one.rounds}",
        )
        return {**cells, **dict(zip(heads, values, strict=True))}

    def _counted(self) -> dict[str, str]:
        """What needs no run."""
        cells: dict[str, str] = {}
        for measure, form in _FACTS.items():
            if self.paper(measure) is None:
                continue
            ours = sorted(self.ours(measure))
            text = format(ours[len(ours) // 2], form) if ours else "not run"
            if len(ours) > 1:
                text += f" ({ours[0]:{form}} to {ours[-1]:{form}})"
            cells |= {f"{_WORDS[measure]}: paper": self.row.published[measure], f"{_WORDS[measure]}: ours": text}
        return cells


def _range(paper: tuple[float, float] | None) -> str:
    if paper is None:
        return "-"
    return f"{paper[0]:g}" if paper[0] == paper[1] else f"{paper[0]:g} to {paper[1]:g}"


_WORDS = {
    **{name: name for name in _FACTS},
    "accuracy": "accuracy",
    "balanced": "balanced accuracy",
    "auroc": "AUROC",
    "up_MB": "MB up",
    "clip": "S",
}
_EPSILON = ("epsilon: paper", "ours, as the paper counts", "that holds, model", "server")


def lines(table: Table, rows: Sequence[Row] | None = None, where: Path | None = None) -> list[Line]:
    """The table's rows, all or these, with what the paper's folder has for them."""
    folder = table.paper.folder
    by_key: dict[tuple[str, str], list[Result]] = {}
    facts: dict[tuple[str, str], list[Fact]] = {}
    if table.kind == "run":
        for one in results.read(folder):
            by_key.setdefault((one.setting, one.row), []).append(one)
    else:
        for fact in (one for one in results.facts(folder) if not one.measure.startswith("moved")):
            facts.setdefault((fact.setting, fact.row), []).append(fact)
    return [
        Line(row, tuple(by_key.get(row.key, ())), tuple(facts.get(row.key, ())), where)
        for row in (table.rows if rows is None else rows)
    ]


def markdown(found: Sequence[Line]) -> str:
    """A table for a README; columns of which nothing is known are left out."""
    cells = [line.cells() for line in found]
    known = {head for one in cells for head, text in one.items() if text != "-"}
    heads = [head for head in dict.fromkeys(head for one in cells for head in one) if head in known]
    text = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    text += [f"| {' | '.join(one.get(head, '-') for head in heads)} |" for one in cells]
    return "\n".join(text) + "\n"


def filled(text: str, tables: Mapping[str, Table]) -> str:
    """A README with every table between its marks as the results have it."""
    for name in re.findall(r"<!-- table: (\S+) -->", text):
        if name not in tables:
            raise Mistake(f"a README shows table {name!r}, which is not known")
        before, rest = text.split(f"<!-- table: {name} -->\n", 1)
        _, end, after = rest.partition("<!-- end -->")
        text = f"{before}<!-- table: {name} -->\n{markdown(lines(tables[name]))}{end}{after}"
    return text


def write(folder: Path) -> list[Path]:
    """Fill the READMEs of the papers; those that changed."""
    changed = []
    for paper in papers(folder):
        path = paper.folder / "README.md"
        text = path.read_text()
        made = filled(text, {table.name: table for table in paper.tables})
        if made != text:
            files.write(path, made.encode())
            changed.append(path)
    return changed
