"""Paper beside ours: the rows of a table with what was measured, as objects, on the terminal and in the READMEs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from hush.data import files
from hush.errors import Mistake
from hush.experiment.report import runs
from hush.experiment.reproduce import results
from hush.experiment.reproduce.plan import Row, Table, papers
from hush.experiment.reproduce.results import Fact, Result
from hush.privacy.shown import shown

# The directory of a run: the row's name, the seed, and the commit where it was run again; see Job.path.
_RUN = re.compile(r"(.+)-\d{1,4}(?:-[0-9a-f]{7,})?")
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
        own = (place for name, place in self._begun() if name == self.row.name)
        return "interrupted" if any((place / "checkpoint").exists() for place in own) else "not run"

    @cached_property
    def elsewhere(self) -> float | None:
        """What one run of it took where its committed result is from."""
        return next((one.seconds for one in self.found if one.seconds is not None), None)

    @cached_property
    def seconds(self) -> float | None:
        """What one run of it takes, by the rounds that this machine has run of its scheme in its setting."""
        alike = [one for one in self._begun() if _scheme(one[0]) == _scheme(self.row.name)]
        for _, place in sorted(alike, key=lambda one: one[0] != self.row.name):
            if not (place / "rounds.jsonl").exists():
                continue
            run = runs.read(place)
            if run.rounds:
                return float(run.total * sum(one["seconds"] for one in run.rounds) / len(run.rounds))
        return None

    def _begun(self) -> list[tuple[str, Path]]:
        """The directories of runs in its setting, each with its row's name."""
        if self.runs is None or self.row.table.kind != "run":
            return []
        places = sorted((self.runs / self.row.key[0]).glob("*"))
        return [(found[1], place) for place in places if (found := _RUN.fullmatch(place.name))]

    def plain(self) -> dict[str, Any]:
        """As an object for --json."""
        measure = self.row.table.measure
        paper, ours = self.paper(measure), self.ours(measure)
        one = _middle(measure, ours) if ours else None
        middle = None if paper is None else round(sum(paper) / 2, 6)
        return {
            "table": self.row.table.name,
            "row": self.row.name,
            "measure": measure,
            "paper": middle,
            "ours": None if one is None else round(one, 6),
            "lowest": min(ours, default=None),
            "highest": max(ours, default=None),
            "difference": None if one is None or middle is None else round(one - middle, 6),
            "published": dict(self.row.published),
            "seeds": self.seeds,
            "state": self.state,
            "seconds": self.seconds,
            "runs": [
                {name: value for name, value in asdict(one).items() if name not in ("setting", "row")}
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
            mean = fmean(ours)
            spread = f" ({min(ours):.{places}f} to {max(ours):.{places}f})" if len(ours) > 1 else ""
            text = f"{mean:.{places}f}{spread}"
            difference = f"{mean - sum(paper) / 2:+.{places}f}" if paper else "-"
        return {f"{word}: paper": _range(paper), f"{word}: ours": text, f"{word}: difference": difference}

    def _spent(self) -> dict[str, str]:
        """Bytes and rounds, of several seeds the means, and epsilons, of these the largest."""
        known, found = self.row.published, self.found
        cells = {}
        for way in ("up", "down"):
            cells[f"kB {way}: paper"] = known.get(f"{way}_kB") or "-"
            ours = [one for result in found if (one := getattr(result, f"{way}_kB_best")) is not None]
            cells[f"kB {way}: ours"] = f"{fmean(ours):.2f}" if ours else "-"
        heads = ("best round", "last round", *_EPSILON, "seeds", "evaluated")
        if not found:
            return {**cells, **dict.fromkeys(heads, "-"), _EPSILON[0]: known.get("epsilon") or "-"}
        spent = [
            max((one for result in found if (one := getattr(result, f"epsilon_{view}")) is not None), default=None)
            for view in ("paper", "model", "server")
        ]
        values = (
            ", ".join(str(result.round_best or "-") for result in found),
            f"{fmean(result.last for result in found):.3f}",
            known.get("epsilon") or "-",
            "none" if spent[0] is None else f"{spent[0]:.2f}",  # rounded as there
            *("none" if value is None else shown(value) for value in spent[1:]),
            str(len(self.seeds)),
            ", ".join(dict.fromkeys(f"{result.evaluated} of {result.rounds}" for result in found)),
        )
        return {**cells, **dict(zip(heads, values, strict=True))}

    def _counted(self) -> dict[str, str]:
        """What needs no run."""
        cells: dict[str, str] = {}
        for measure, form in _FACTS.items():
            if self.paper(measure) is None:
                continue
            ours = sorted(self.ours(measure))
            text = format(_middle(measure, ours), form) if ours else "not run"
            if len(ours) > 1:
                text += f" ({ours[0]:{form}} to {ours[-1]:{form}})"
            cells |= {f"{_WORDS[measure]}: paper": self.row.published[measure], f"{_WORDS[measure]}: ours": text}
        return cells


def _scheme(row: str) -> str:
    return re.split("[@ ]", row)[0]


def _middle(measure: str, ours: Sequence[float]) -> float:
    """Of several seeds: the median of what needs no run, else the mean."""
    return median(ours) if measure in _FACTS else fmean(ours)


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
