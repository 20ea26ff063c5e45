"""The rows of the papers' tables as experiments/ has them: what was published, and which configuration a row is."""

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from hush.errors import Mistake
from hush.experiment import config
from hush.experiment.config import Config

RowKind = Literal["run", "clip", "data"]
_PRIVATE = ("clip", "noise", "epsilon", "quantile")
# Where the columns of published.csv go in a configuration.
_COLUMNS = {"scheme": ("scheme", "name"), "ratio": ("scheme", "ratio"), "data": ("data", "name")}


@dataclass(frozen=True)
class Setting:
    """What the rows of some tables have in common.

    config: a file beside tables.toml; in its name {row} stands for the first word of the row's name, with - for @, and
    {scheme} for its scheme. where: changes for some rows, as pairs of what a row's columns must be and what is set
    then; where nothing must be, for all. moves: rows of which it is kept how far the weights of the first one's
    coordinates have moved.
    """

    name: str
    config: str
    measure: str
    where: tuple[Mapping[str, Any], ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a table: its name, its published figures as printed, and what is set for it beyond its setting."""

    table: "Table"
    name: str
    published: Mapping[str, str]
    change: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Rows of several tables with the same one are one run."""
        return self.table.setting.name, self.name

    @property
    def scheme(self) -> str:
        """The scheme's name; empty where a row is about data."""
        return str(self.published.get("scheme") or self.change.get("scheme", {}).get("name", ""))

    def config(self, seed: int) -> Config:
        """What is run for it."""
        from hush.catalogue.entries import entry  # torch is slow to import

        setting = self.table.setting
        place = setting.config.format(row=_first(self.name).replace("@", "-"), scheme=self.scheme)
        base = config.read(self.table.paper.folder / place)
        tables = base.model_dump(exclude_unset=True, exclude_none=True)
        if "{" not in setting.config:
            tables.get("scheme", {}).pop("ratio", None)
        for column, (table, key) in _COLUMNS.items():
            value = self.published.get(column, "")
            if value and not (column == "ratio" and float(value) == 1):
                tables.setdefault(table, {})[key] = float(value) if column == "ratio" else value
        changes = [one["change"] for one in setting.where if _matches(one["match"], self.published)]
        for change in (*changes, self.change):
            for table, keys in change.items():
                tables.setdefault(table, {}).update(keys)
        if not entry(tables["scheme"]["name"]).private:
            for key in _PRIVATE:
                tables["scheme"].pop(key, None)
        if self.table.kind == "clip":
            tables["scheme"]["clip"] = "public"
        tables.setdefault("run", {})["seed"] = seed
        return config.parse(tables, f"{self.table.name} {self.name}")


@dataclass(frozen=True, eq=False)
class Table:
    """A table of a paper, or one of our own.

    measure: what is compared, a column of published.csv and of a result. source: the table of published.csv whose rows
    it has. beside: the one whose figures stand beside the rows of our own, each found by the first word of the name.
    """

    paper: "Paper"
    name: str
    title: str
    setting: Setting
    kind: RowKind
    measure: str
    source: str
    own: Mapping[str, Mapping[str, Any]]
    beside: str = ""

    @property
    def like(self) -> tuple[str, str, str]:
        """What tables share of which one could have the other's rows."""
        return self.setting.name, self.kind, self.measure

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """In the paper's order, then those of our own."""
        published = self.paper.published
        known = {line["row"]: line for line in published if line["table"] == self.beside}
        return (
            *(Row(self, line["row"], line) for line in published if line["table"] == self.source),
            *(Row(self, name, known.get(_first(name), {}), change) for name, change in self.own.items()),
        )


@dataclass(frozen=True, eq=False)
class Paper:
    """A folder of experiments/: published.csv, tables.toml, configurations, results."""

    folder: Path

    @cached_property
    def published(self) -> tuple[Mapping[str, str], ...]:
        """Every published figure, a row of a table each."""
        with (self.folder / "published.csv").open(newline="") as file:
            return tuple(csv.DictReader(file))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """All tables of the folder."""
        found = tomllib.loads((self.folder / "tables.toml").read_text())
        settings = {
            name: Setting(name, one["config"], one["measure"], tuple(one.get("where", ())), tuple(one.get("moves", ())))
            for name, one in found["settings"].items()
        }
        return tuple(
            Table(
                self,
                name,
                one["title"],
                settings[one["setting"]],
                one.get("kind", "run"),
                one.get("measure", settings[one["setting"]].measure),
                one.get("source", name),
                one.get("rows", {}),
                one.get("beside", ""),
            )
            for name, one in found["tables"].items()
        )


def papers(folder: Path) -> tuple[Paper, ...]:
    """The papers whose tables the folder describes."""
    found = tuple(Paper(path.parent) for path in sorted(folder.glob("*/tables.toml")))
    if not found:
        raise Mistake(
            f"{folder} holds no tables of papers: run this in a clone of the project, or give --experiments DIR"
        )
    return found


def find(folder: Path, name: str) -> Table:
    """The table of this name."""
    known = {table.name: table for paper in papers(folder) for table in paper.tables}
    if name not in known:
        raise Mistake(f"table {name!r} is not known: choose from {', '.join(known)}")
    return known[name]


def chosen(table: Table, names: list[str] | None) -> tuple[Row, ...]:
    """The rows of these names, several in one word by commas; all without any.

    A row that the table leaves out may be another's of the paper, of the same setting: ratios are spread over several.
    """
    wanted = [name.strip() for word in names or [] for name in word.split(",")]
    if not all(wanted):
        raise Mistake("a name in --rows is empty: leave --rows out for all rows")
    known = {row.name: row for row in table.rows}
    alike = [one for one in table.paper.tables if not one.own and one.like == table.like]
    others = {row.name: row for one in reversed(alike) for row in one.rows} | known
    for name in wanted:
        if name not in others:
            raise Mistake(f"row {name!r} is not in {table.name}: choose from {', '.join(known)}")
    return tuple(others[name] for name in wanted) if wanted else table.rows


def _first(name: str) -> str:
    return name.split()[0]


def _matches(wanted: Mapping[str, Any], row: Mapping[str, str]) -> bool:
    return all(row.get(column) in (one if isinstance(one, list) else [one]) for column, one in wanted.items())
