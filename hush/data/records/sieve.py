"""The rows of a table that are left, what each rule did to them, and the sentence by which a row is refused."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import polars as pl

from hush.data.records.tables import FILE, ROW, Table
from hush.errors import Mistake


@dataclass(frozen=True)
class Rule:
    """What one rule did: of `before` rows (or codes, or clients) it dropped some, or changed a value in some."""

    name: str
    before: int
    dropped: int
    why: str
    of: str = "rows"
    changed: int = 0


@dataclass
class Sieve:
    """The rows of a table that are left, and what each rule did so far."""

    table: Table
    frame: pl.DataFrame
    counts: list[Rule] = field(default_factory=list)

    def refuse(self, column: str, wrong: pl.Expr, reason: str) -> None:
        """Refuse the table for the first row that is wrong."""
        found = self.frame.filter(wrong)
        if len(found):
            raise Mistake(refusal(self.table, found, column, reason))

    def drop(self, name: str, wrong: pl.Expr, why: str) -> None:
        """Take the rows that are wrong, and count them."""
        before = len(self.frame)
        self.frame = self.frame.filter(~wrong.fill_null(False))
        self.counts.append(Rule(name, before, before - len(self.frame), why))

    def change(self, name: str, where: pl.Expr, why: str) -> None:
        """Count the rows in which a value is read as another."""
        changed = int(self.frame.select(where.fill_null(False).sum()).item())
        if changed:
            self.counts.append(Rule(name, len(self.frame), 0, why, changed=changed))

    def parsed(self, column: str, value: pl.Expr, what: str) -> None:
        """Refuse a value that is there and is not what it must be."""
        found = self.frame.filter(value.is_null() & self.table.text(column).is_not_null())
        if len(found):
            remedy = f"correct it, or {unknown(self.table, column, found[column][0])}"
            if "number" in what:
                remedy = _sign(str(found[column][0]), found[FILE][0], self.table) or remedy
            raise Mistake(refusal(self.table, found, column, f"is no {what}: {remedy}"))


def unknown(table: Table, column: str, value: object) -> str:
    """How to say that a value means "not known" in a column, beside what the schema says of others already."""
    marks = {name: list(values) for name, values in table.missing.items() if values}
    marks[column] = [*marks.get(column, ()), str(value).strip()]
    said = ", ".join(f"{_key(name)} = {json.dumps(values, ensure_ascii=False)}" for name, values in marks.items())
    return f"say missing = {{ {said} }} if it means 'not known' there"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _sign(value: str, file: str, table: Table) -> str | None:
    """What to do about a number with the other decimal sign, or with a sign between its thousands."""
    comma = file in table.commas
    if re.fullmatch(r"\s*[+-]?\d*(\.\d{3})*,\d+\s*", value) and not comma:
        commas = [label for label in table.files if label in table.commas or label == file]
        by_file = ", ".join(f"{_key(label)} = ','" for label in commas)
        said = "','" if len(commas) == len(table.files) else f"{{ {by_file} }}"
        return f"say decimal = {said} if the comma is the decimal sign"
    if re.fullmatch(r"\s*[+-]?[\d.]+(,\d*)?\s*", value) and comma:
        return "write it without a point between thousands, as decimal = ',' makes the comma the decimal sign"
    return None


def refusal(table: Table, found: pl.DataFrame, column: str, reason: str) -> str:
    """The sentence on the first row of `found`."""
    value = found[column][0]
    what = f"{column} = {value!r}"
    if found.head(1).select(table.text(column)).item() is None:
        what = f"{column} is missing" + ("" if value is None or value == "" else f" ({value!r})")
    more = f" ({len(found) - 1} more rows like it)" if len(found) > 1 else ""
    return f"row {found[ROW][0]} of {found[FILE][0]}: {what}, {reason}{more}"
