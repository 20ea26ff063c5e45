"""Which rows are kept. Every rule counts what it took; what no rule may decide is refused with its row."""

from __future__ import annotations

import polars as pl

from hush.data.records import labels
from hush.data.records.schema import Keep
from hush.data.records.sieve import Sieve
from hush.data.records.sources import Main, written
from hush.data.records.tables import FILE, ROW, Table, reporting
from hush.errors import Mistake


def kept(table: Table, main: Main, keep: Keep, columns: set[str], coded: bool = False) -> Sieve:
    """The rows of the main table that its rules keep, with `columns` and those that the rules need.

    coded: whether a table of codes points at the ids.
    """
    roles = {"id": main.id, "client": main.client, "label": main.label, "patient": main.patient}
    if table.by_path:
        del roles["client"]
    if keep.min_age is not None or keep.max_age is not None:
        roles["age"] = keep.age
    roles |= {"stay": keep.stay, "admitted": keep.admitted, "discharged": keep.discharged}
    roles |= {f"exclude.{column}": column for column in keep.exclude}
    needed = columns | {table.check(column, role) for role, column in roles.items() if column is not None}
    with reporting(table.name):
        frame = table.lazy.select(ROW, FILE, *sorted(needed)).collect()
    if not len(frame):
        raise Mistake(f"{table.name} has no rows: give a table with at least one admission")
    sieve = Sieve(table, frame)
    if table.by_path:
        _each(sieve)
    else:
        sieve.refuse(main.client, table.text(main.client).is_null(), "and every row needs its client: fill it in")
    if main.id is not None:
        _distinct(sieve, main, keep, coded)
    if main.patient is not None:
        sieve.refuse(main.patient, table.text(main.patient).is_null(), "and every row needs its patient: fill it in")
    labels.check(sieve, main)
    unlabelled = table.text(main.label).is_null()
    if main.unlabelled == "drop":
        sieve.drop("unlabelled", unlabelled, f"{main.label} is missing")
    sieve.refuse(main.label, unlabelled, "and every row needs a label: fill it in, or say unlabelled = 'drop'")
    if "age" in roles:
        _age(sieve, keep)
    for column, values in keep.exclude.items():
        words = [written(value) for value in values]
        found = pl.coalesce(table.category(column), pl.lit("")).is_in(words)
        sieve.drop(f"exclude {column}", found, f"{column} is {' or '.join(word or 'missing' for word in words)}")
    _days(sieve, keep)
    return sieve


def _each(sieve: Sieve) -> None:
    """Refuse a file without rows where each is a client."""
    full = set(sieve.frame[FILE].unique())
    empty = [label for label in sieve.table.files if label not in full]
    if empty:
        raise Mistake(f"{empty[0]} has no rows, and each file is a client: export it again, or take it out")


def _distinct(sieve: Sieve, main: Main, keep: Keep, coded: bool) -> None:
    """Hospitals with a file each number their own rows: an id of two is a repeat only where codes point at it."""
    assert main.id is not None
    column, text, client = main.id, sieve.table.text(main.id), sieve.table.client(main.client)
    sieve.refuse(column, text.is_null(), "and every admission needs its id: fill it in")
    key = text
    if sieve.table.by_path and not coded:
        key = pl.struct(text.alias("id"), client.alias("client"))
    if keep.duplicates == "refuse":
        repeated = ~key.is_first_distinct()
        # To drop it would drop another hospital's patient.
        elsewhere = repeated & (client.n_unique().over(text) > 1)
        sieve.refuse(column, elsewhere, "which another client has too: make their ids differ, by a prefix for each")
        sieve.refuse(
            column, repeated, "an admission that came before: remove it, or say duplicates = 'first' or 'last'"
        )
        return
    again = ~(key.is_first_distinct() if keep.duplicates == "first" else key.is_last_distinct())
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
