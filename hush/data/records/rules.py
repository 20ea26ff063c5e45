"""Which rows are kept. Every rule counts what it took; what no rule may decide is refused with its row."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import polars as pl

from hush.data.records.schema import Keep, Main
from hush.data.records.tables import ROW, Table, reporting, written
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
            remedy = "correct it, or add it to missing = [...] if it means 'not known'"
            if "number" in what:
                remedy = _sign(str(found[column][0]), self.table.decimal) or remedy
            raise Mistake(refusal(self.table, found, column, f"is no {what}: {remedy}"))


def _sign(value: str, decimal: str) -> str | None:
    """What to do about a number with the other decimal sign, or with a sign between its thousands."""
    if re.fullmatch(r"\s*[+-]?\d*(\.\d{3})*,\d+\s*", value) and decimal == ".":
        return "say decimal = ',' if the comma is the decimal sign"
    if re.fullmatch(r"\s*[+-]?[\d.]+(,\d*)?\s*", value) and decimal == ",":
        return "write it without a point between thousands, as decimal = ',' makes the comma the decimal sign"
    return None


def refusal(table: Table, found: pl.DataFrame, column: str, reason: str) -> str:
    """The sentence on the first row of `found`."""
    value = found[column][0]
    what = f"{column} is missing" if value is None or value == "" else f"{column} = {value!r}"
    more = f" ({len(found) - 1} more rows like it)" if len(found) > 1 else ""
    return f"row {found[ROW][0]} of {table.name}: {what}, {reason}{more}"


def kept(table: Table, main: Main, keep: Keep, columns: set[str]) -> Sieve:
    """The rows of the main table that its rules keep, with `columns` and those that the rules need."""
    roles = {"id": main.id, "client": main.client, "label": main.label, "patient": main.patient}
    if keep.min_age is not None or keep.max_age is not None:
        roles["age"] = keep.age
    roles |= {"stay": keep.stay, "admitted": keep.admitted, "discharged": keep.discharged}
    roles |= {f"exclude.{column}": column for column in keep.exclude}
    needed = columns | {table.check(column, role) for role, column in roles.items() if column is not None}
    with reporting(table.name):
        frame = table.rows().select(ROW, *sorted(needed)).collect()
    if not len(frame):
        raise Mistake(f"{table.name} has no rows: give a table with at least one admission")
    sieve = Sieve(table, frame)
    sieve.refuse(main.client, table.text(main.client).is_null(), "and every row needs its client: fill it in")
    if main.id is not None:
        _distinct(sieve, main.id, keep)
    if main.patient is not None:
        sieve.refuse(main.patient, table.text(main.patient).is_null(), "and every row needs its patient: fill it in")
    words = [written(value) for value in main.positive or ()]
    if words and not frame.select(table.text(main.label).is_in(words).any()).item():  # a slip in the schema
        wanted = " or ".join(map(repr, words))
        raise Mistake(f"no row of {table.name} has {main.label} = {wanted}: write positive as it stands in the file")
    unlabelled = table.text(main.label).is_null()
    if main.unlabelled == "drop":
        sieve.drop("unlabelled", unlabelled, f"{main.label} is missing")
    sieve.refuse(main.label, unlabelled, "and every row needs a label: fill it in, or say unlabelled = 'drop'")
    if "age" in roles:
        _age(sieve, keep)
    for column, values in keep.exclude.items():
        words = [written(value) for value in values]
        found = pl.coalesce(table.text(column), pl.lit("")).is_in(words)
        sieve.drop(f"exclude {column}", found, f"{column} is {' or '.join(word or 'missing' for word in words)}")
    _days(sieve, keep)
    return sieve


def _distinct(sieve: Sieve, column: str, keep: Keep) -> None:
    text = sieve.table.text(column)
    sieve.refuse(column, text.is_null(), "and every admission needs its id: fill it in")
    if keep.duplicates == "refuse":
        repeated = ~text.is_first_distinct()
        sieve.refuse(
            column, repeated, "an admission that came before: remove it, or say duplicates = 'first' or 'last'"
        )
        return
    again = ~(text.is_first_distinct() if keep.duplicates == "first" else text.is_last_distinct())
    sieve.drop("duplicates", again, f"{column} comes more than once; the {keep.duplicates} one is kept")


def _undecided(sieve: Sieve, column: str, keep: Keep) -> None:
    unknown = sieve.table.text(column).is_null()
    if keep.undecided == "drop":
        if sieve.frame.select(unknown.any()).item():
            sieve.drop(f"no {column}", unknown, f"{column} is missing, and a rule needs it")
        return
    sieve.refuse(column, unknown, "and a rule of [keep] needs it: fill it in, or say undecided = 'drop'")


def _age(sieve: Sieve, keep: Keep) -> None:
    age = sieve.table.number(keep.age)
    sieve.parsed(keep.age, age, "number")
    _undecided(sieve, keep.age, keep)
    if keep.min_age is not None:
        sieve.drop("min_age", age < keep.min_age, f"{keep.age} is less than {keep.min_age:g}")
    if keep.max_age is not None:
        sieve.drop("max_age", age > keep.max_age, f"{keep.age} is more than {keep.max_age:g}")


def _days(sieve: Sieve, keep: Keep) -> None:
    table = sieve.table
    if keep.stay is not None:
        days, column = table.number(keep.stay), keep.stay
        sieve.parsed(column, days, "number of days")
        _undecided(sieve, column, keep)
        wrong, why = days < 0, "is a stay of less than no days"
    elif keep.admitted is not None and keep.discharged is not None:
        column = keep.discharged
        ends = [table.date(end, keep.dates) for end in (keep.admitted, column)]
        for end, value in zip((keep.admitted, column), ends, strict=True):
            sieve.parsed(end, value, f"date like {keep.dates or '2024-01-31'} (the key dates sets another form)")
            _undecided(sieve, end, keep)
        days = (ends[1] - ends[0]).dt.total_days()
        wrong, why = days < 0, f"is before {keep.admitted}"
    else:
        return
    if keep.wrong_dates == "drop":
        sieve.drop("wrong_dates", wrong, f"{column} {why}")
    sieve.refuse(column, wrong, f"which {why}: correct it, or say wrong_dates = 'drop'")
    if keep.min_days is not None:
        sieve.drop("min_days", days < keep.min_days, f"fewer than {keep.min_days:g} days in hospital")
