"""The labels: 0 or 1 by the values that count as 1, or the classes that stand in the column."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.data.records.headings import MARKS
from hush.data.records.sieve import Sieve, unknown
from hush.data.records.sources import Main, written
from hush.errors import Mistake

Array = np.ndarray[Any, Any]
_MARKS = (*MARKS, "-9", "-99", "-999")  # a label that is one of these is hardly a 0


def check(sieve: Sieve, main: Main) -> None:
    """Refuse positive values that no row has, which is a slip in the schema, and labels that are in neither list."""
    if main.positive is None:
        return
    table, label = sieve.table, sieve.table.category(main.label)
    ones, zeros = ([written(value) for value in values or ()] for values in (main.positive, main.negative))
    there = sieve.frame.select(label.alias("value")).to_series().drop_nulls().value_counts(sort=True)
    seen = dict(there.sort(["count", "value"], descending=[True, False]).iter_rows())
    if not any(word in seen for word in ones):
        wanted, shown = " or ".join(map(repr, ones)), ", ".join(map(repr, list(seen)[:5])) or "nothing"
        raise Mistake(
            f"no row of {table.name} has {main.label} = {wanted}: write positive as it stands in the file, where"
            f" {shown} stand"
        )
    others = [word for word in seen if word not in ones]
    if main.negative is not None:
        remedy = "which is neither positive nor negative: add it to one of them, or {}"
    else:
        zeros = [word for word in others if word not in _MARKS]
        remedy = "which would count as 0, as it is not positive: {}, or name all that are 0 with negative = [...]"
        spelt = {word.casefold() for word in ones}
        for word in others:
            if word.casefold() in spelt:
                why = "which is positive but for its capitals: add it to positive, or name all that are 0 with negative"
                sieve.refuse(main.label, label == word, why)
    for word in others:
        if word not in zeros:
            sieve.refuse(main.label, label == word, remedy.replace("{}", unknown(table, main.label, word)))
    if main.negative is None and len(others) > 1:
        shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        sieve.change(f"{main.label} not positive", label.is_in(others), f"{main.label} is {shown}: all are taken as 0")


def labels(sieve: Sieve, main: Main) -> Array:
    """0 or 1 by the positive values, or the integers from 0 that stand in the column; int64."""
    text, number = sieve.table.category(main.label), sieve.table.number(main.label)
    if main.positive is not None:
        words = [written(value) for value in main.positive]
        found: Array = sieve.frame.select(text.is_in(words)).to_series().to_numpy().astype(np.int64)
        return found
    odd = number.is_null() | (number < 0) | (number != number.floor()) | (number > 999)
    remedy = "which is no class 0, 1, ...: say which values are positive = [...], and which are missing, if any"
    sieve.refuse(main.label, odd, remedy)
    classes: Array = sieve.frame.select(number).to_series().to_numpy().astype(np.int64)
    return classes
