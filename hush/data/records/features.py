"""From kept rows to scaled numbers, one-hot categories and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hush.data.records.rules import Rule, Sieve
from hush.data.records.schema import Features, Main, Numeric, Value, Values
from hush.data.records.tables import written
from hush.errors import Mistake

Array = np.ndarray[Any, Any]
UNKNOWN = "Unknown"
_FLAT = 1e30  # the span of a column that has none


@dataclass(frozen=True, eq=False)
class Block:
    """Feature columns of every row: one `column` (within the block) and `value` per row. `fitted` is in words.

    `settled`: the column's part of a schema, with all that was fitted written down.
    """

    group: str
    names: tuple[str, ...]
    column: Array
    value: Array
    fitted: tuple[str, ...] = ()
    settled: Numeric | Values = ()


def check_numbers(sieve: Sieve, features: Features) -> None:
    """Refuse or drop numbers that are missing or outside their public bounds."""
    for column, wanted in features.numeric.items():
        value = sieve.table.number(column)
        sieve.parsed(column, value, "finite number")
        unknown = sieve.table.text(column).is_null()
        if wanted.missing == "drop":
            sieve.drop(f"no {column}", unknown, f"{column} is missing")
        elif wanted.missing == "refuse":
            remedy = f"fill it in, or say how: numeric.{column}.missing = 'median', 'zero', 'drop' or a number"
            sieve.refuse(column, unknown, remedy)
        outside = (value < (-np.inf if wanted.min is None else wanted.min)) | (
            value > (np.inf if wanted.max is None else wanted.max)
        )
        bounds = (
            f"{'' if wanted.min is None else f'{wanted.min:g}'} to {'' if wanted.max is None else f'{wanted.max:g}'}"
        )
        if wanted.outside == "drop":
            sieve.drop(f"{column} outside", outside, f"{column} is not in {bounds}")
        elif wanted.outside == "clamp":
            sieve.change(f"{column} outside", outside, f"{column} is not in {bounds}: taken as the nearer bound")
        else:
            remedy = f"which is not in {bounds}: correct it, or say numeric.{column}.outside = 'clamp' or 'drop'"
            sieve.refuse(column, outside, remedy)


def cut_clients(sieve: Sieve, main: Main, least: int | None) -> tuple[str, ...]:
    """Take the clients with fewer than `least` rows, and count them; in words, if this was fitted."""
    if least is None:
        return ()
    client = sieve.table.text(main.client)
    before = sieve.frame.select(client.n_unique()).item()
    small = pl.len().over(client) < least
    sieve.drop("min_rows_per_client", small, f"the client has fewer than {least:,} rows")
    left = sieve.frame.select(client.n_unique()).item()
    why = f"fewer than {least:,} rows are left of it"
    sieve.counts.append(Rule("min_rows_per_client", before, before - left, why, of="clients"))
    return (f"clients: those with at least {least:,} rows, counted on their rows",)


def numeric(sieve: Sieve, column: str, wanted: Numeric) -> Block:
    """(value - min) / (max - min), in float32; a public bound as given, another one from the rows."""
    value = sieve.frame.select(sieve.table.number(column)).to_series().to_numpy().astype(np.float64)
    gone, fitted = np.isnan(value), []
    known = value[~gone]
    if wanted.min is None or wanted.max is None:
        ends = " and ".join(n for n, b in (("smallest", wanted.min), ("largest", wanted.max)) if b is None)
        fitted.append(f"{column}: its {ends} value, to scale it")
        if not len(known):
            raise Mistake(f"{column} is missing in every row: leave it out of numeric")
    low = wanted.min if wanted.min is not None else float(known.min())
    high = wanted.max if wanted.max is not None else float(known.max())
    fill, how = low, "its lower bound"
    if wanted.missing == "median":
        fitted.append(f"{column}: its median, for missing values")
        fill, how = (float(np.median(known)) if len(known) else low), "the median"
    elif isinstance(wanted.missing, float):
        fill, how = wanted.missing, f"{wanted.missing:g}"
    value[gone] = fill
    sieve.change(f"no {column}", sieve.table.text(column).is_null(), f"{column} is missing: taken as {how}")
    span = high - low
    scaled = np.clip((value - low) / span if span > 0 else value * 0, 0, 1)
    settled = wanted.model_copy(
        update={
            # A column of one value stays 0, whatever a later row has.
            **{"min": low, "max": high if span > 0 else low + _FLAT},
            "missing": fill if wanted.missing == "median" else wanted.missing,
            # Beyond a bound that is fitted lies no error of whoever writes a row later.
            "outside": "clamp" if None in (wanted.min, wanted.max) else wanted.outside,
        }
    )
    places = np.zeros(len(value), np.int32)
    return Block(column, (column,), places, scaled.astype(np.float32), tuple(fitted), settled)


def categorical(sieve: Sieve, column: str, given: tuple[Value, ...]) -> Block:
    """One column per level. What is missing or not in a given list is "Unknown", if that is a level, or refused."""
    text, levels = sieve.table.text(column), tuple(map(written, given))
    fitted: tuple[str, ...] = ()
    if not levels:
        found = sieve.frame.select(text.unique().sort()).to_series()
        levels = tuple(level for level in found if level is not None)
        if found.null_count() and UNKNOWN not in levels:
            levels = (*levels, UNKNOWN)
        fitted = (f"{column}: the list of its {len(levels)} values",)
    outside = ~text.is_in(levels) | text.is_null()
    if UNKNOWN in levels:
        sieve.change(f"{column} unknown", outside, f"{column} is missing or not in its list: taken as {UNKNOWN}")
    else:
        remedy = f"which is not in categorical.{column}: correct it, or add it or {UNKNOWN!r} to the list"
        sieve.refuse(column, outside, remedy)
    place = pl.when(outside).then(pl.lit(UNKNOWN)).otherwise(text)
    column_of = place.replace_strict(list(levels), range(len(levels)), return_dtype=pl.Int32)
    at = sieve.frame.select(column_of).to_series().to_numpy()
    names = tuple(f"{column}={level}" for level in levels)
    return Block(column, names, at, np.ones(len(at), np.float32), fitted, levels)


def labels(sieve: Sieve, main: Main) -> Array:
    """0 or 1 by the positive values, or the integers from 0 that stand in the column; int64."""
    text, number = sieve.table.text(main.label), sieve.table.number(main.label)
    if main.positive is not None:
        words = [written(value) for value in main.positive]
        found: Array = sieve.frame.select(text.is_in(words)).to_series().to_numpy().astype(np.int64)
        return found
    odd = number.is_null() | (number < 0) | (number != number.floor()) | (number > 999)
    sieve.refuse(main.label, odd, "which is no class 0, 1, ...: say which values are positive = [...]")
    classes: Array = sieve.frame.select(number).to_series().to_numpy().astype(np.int64)
    return classes
