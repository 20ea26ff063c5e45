"""From kept rows to scaled numbers, one-hot categories and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hush.data.records.schema import Categorical, Features, Numeric
from hush.data.records.sieve import Rule, Sieve, unknown
from hush.data.records.sources import Main, written
from hush.errors import Mistake

Array = np.ndarray[Any, Any]
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
    settled: Numeric | Categorical | None = None


def check_numbers(sieve: Sieve, features: Features) -> None:
    """Refuse or drop numbers that are missing or outside their public bounds."""
    for column, wanted in features.numeric.items():
        value = sieve.table.number(column)
        sieve.parsed(column, value, "finite number")
        gone = sieve.table.text(column).is_null()
        if wanted.missing == "drop":
            sieve.drop(f"no {column}", gone, f"{column} is missing")
        elif wanted.missing == "refuse":
            remedy = f"fill it in, or say how: numeric.{column}.missing = 'median', 'zero', 'drop' or a number"
            sieve.refuse(column, gone, remedy)
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
            found = sieve.frame.filter(outside)[column]
            means = unknown(sieve.table, column, found[0]) if len(found) else ""
            remedy = (
                f"which is not in {bounds}: correct it, {means}, or say numeric.{column}.outside = 'clamp' or 'drop'"
            )
            sieve.refuse(column, outside, remedy)


def cut_clients(sieve: Sieve, main: Main, least: int | None) -> tuple[str, ...]:
    """Take the clients with fewer than `least` rows, and count them; in words, if this was fitted."""
    if least is None:
        return ()
    client = sieve.table.client(main.client)
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


def check_categories(sieve: Sieve, features: Features) -> None:
    """Refuse or drop categories that are missing, and separately those that are not in their list."""
    for column, wanted in features.categorical.items():
        text, levels = sieve.table.category(column), [written(level) for level in wanted.levels]
        if wanted.unknown == "drop":
            sieve.drop(f"no {column}", text.is_null(), f"{column} is missing")
        elif wanted.unknown == "refuse":
            remedy = f"fill it in, or say how: add 'Unknown' to categorical.{column} for such rows"
            sieve.refuse(column, text.is_null(), remedy)
        other = ~text.is_in(levels)
        if levels and wanted.other == "drop":
            sieve.drop(f"{column} other", other, f"{column} is not in its list")
        elif levels and wanted.other == "refuse":
            found = sieve.frame.filter(other).select(text.alias("value"))["value"]
            seen = ", ".join(map(repr, found.value_counts(sort=True)["value"].head(5)))
            remedy = (
                f"which is not in categorical.{column} = {', '.join(levels[:8])}: correct it, or add to the list {seen}"
            )
            sieve.refuse(column, other, remedy)


def categorical(sieve: Sieve, column: str, wanted: Categorical) -> Block:
    """One column per level; a missing value, or one that is not in the list, is the level that the schema says."""
    text = sieve.table.category(column)
    names = tuple(level if isinstance(level, str) else written(level) for level in wanted.levels)
    levels, fitted = tuple(map(written, wanted.levels)), tuple[str, ...]()
    if not levels:
        found = sieve.frame.select(text.unique().sort()).to_series()
        levels = tuple(level for level in found if level is not None)
        if found.null_count() and wanted.unknown not in levels:
            levels = (*levels, wanted.unknown)
        names, fitted = levels, (f"{column}: the list of its {len(levels)} values",)
    sieve.change(f"{column} unknown", text.is_null(), f"{column} is missing: taken as {wanted.unknown}")
    other = ~text.is_in(levels)
    sieve.change(f"{column} other", other, f"{column} is not in its list: taken as {wanted.other}")
    place = pl.when(other).then(pl.lit(wanted.other)).otherwise(pl.coalesce(text, pl.lit(wanted.unknown)))
    column_of = place.replace_strict(list(levels), range(len(levels)), return_dtype=pl.Int32)
    at = sieve.frame.select(column_of).to_series().to_numpy()
    shown, settled = tuple(f"{column}={name}" for name in names), wanted.model_copy(update={"levels": names})
    return Block(column, shown, at, np.ones(len(at), np.float32), fitted, settled)
