"""Multi-hot codes: from rows of (admission, day, code), or from columns of codes, to sorted pairs (row, code)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hush.data.records.queries import Answers
from hush.data.records.schema import Schema
from hush.data.records.sieve import Rule, Sieve, refusal
from hush.data.records.sources import Codes
from hush.data.records.tables import FILE, ROW, Table, open_table, reporting
from hush.errors import Mistake

Array = np.ndarray[Any, Any]
# What a row of a codes table is, from the first reason to leave it out to none.
_NOWHERE, _DROPPED, _LATER, _EMPTY, _GOOD, _ODD = range(6)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Row and code (the number of its name) of each code that is set, sorted, none twice."""

    rows: Array
    codes: Array
    names: tuple[str, ...]
    counts: tuple[Rule, ...]
    fitted: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Origin:
    """Lazy rows (FILE, ROW, place, code, kind), and how many there are of each kind and good code."""

    table: Table
    column: str
    rows: pl.LazyFrame
    tally: pl.DataFrame

    def of(self, kind: int) -> int:
        return int(self.tally.filter(kind=kind)["len"].sum())


def pairs(schema: Schema, sieve: Sieve, ids: pl.DataFrame, say: Callable[[str], None], asked: Answers) -> Pairs:
    """The codes of the kept rows. `ids` are those of every admission, kept or not; `asked` the answers to queries."""
    origins = [_wide(sieve, column) for column in schema.features.codes]
    counts: list[Rule] = []
    for source in schema.codes:
        table = open_table(source, asked)
        say(f"counting the codes of {table.name}")
        origin = _long(table, source, sieve, ids, str(schema.main.id))
        counts += _counted(origin, source)
        origins.append(origin)
    seen = pl.concat([origin.tally.filter(kind=_GOOD).select("code", "len") for origin in origins])
    listed, fitted = _vocabulary(schema.features.vocabulary), []
    if listed is None:
        names = sorted(seen["code"].unique())
        fitted.append(f"codes: the list of the {len(names):,} that occur")
    else:
        names = listed
        counts += _outside(origins, seen, names, schema.features.unknown_codes)
    if not names:
        raise Mistake("no kept row has a code: check the columns of [codes], day and day_is")
    say(f"reading the codes of {len(sieve.frame):,} rows")
    keys = _keys(origins, names)
    fresh = np.ones(len(keys), dtype=bool)
    fresh[1:] = keys[1:] != keys[:-1]
    twice = len(keys) - int(fresh.sum())
    if twice and schema.codes:
        counts.append(Rule("repeated codes", len(keys), twice, "the row has that code already", of="code rows"))
    keys = keys[fresh] if twice else keys
    rows, codes = (part.astype(np.int32) for part in np.divmod(keys, len(names)))
    if schema.keep.rare_codes is None:
        return Pairs(rows, codes, tuple(names), tuple(counts), tuple(fitted))
    return _common(Pairs(rows, codes, tuple(names), tuple(counts), tuple(fitted)), sieve, schema)


def _wide(sieve: Sieve, column: str) -> _Origin:
    code = sieve.table.text(column)
    rows = sieve.frame.with_row_index("place").lazy()
    rows = rows.select(FILE, ROW, pl.col("place").cast(pl.Int32), code=code).drop_nulls("code")
    rows = rows.with_columns(kind=pl.lit(_GOOD, dtype=pl.Int8))
    return _Origin(sieve.table, column, rows, rows.group_by("kind", "code").len().collect())


def _long(table: Table, source: Codes, sieve: Sieve, ids: pl.DataFrame, id_column: str) -> _Origin:
    roles = {"codes.admission": source.admission, "codes.code": source.code}
    roles |= {"codes.day": source.day} if source.day is not None else {}
    for role, column in roles.items():
        table.check(column, role)
    mine, theirs = sieve.table.kinds[id_column], table.kinds[source.admission]
    as_number = mine.is_integer() and theirs.is_integer()
    by_id, by_code = (
        pl.col(column).cast(pl.Int64) if as_number else one.text(column)
        for one, column in ((sieve.table, id_column), (table, source.admission))
    )
    places = sieve.frame.lazy().select(key=by_id).with_row_index("place").select("key", pl.col("place").cast(pl.Int32))
    every = ids.lazy().select(key=by_id).unique().join(places, on="key", how="left")
    every = every.with_columns(pl.col("place").fill_null(-1)).collect().lazy()
    today, odd = pl.lit(True), pl.lit(False)
    if source.day is not None:
        day = table.number(source.day)
        today, odd = day == source.day_is, day.is_null() & table.text(source.day).is_not_null()
    code = pl.lit(source.prefix) + table.text(source.code) if source.prefix else table.text(source.code)
    chosen = table.lazy.select(FILE, ROW, key=by_code, code=code, today=today.fill_null(False), odd=odd)
    kind = (
        pl.when(pl.col("odd")).then(_ODD)
        .when(pl.col("place").is_null()).then(_NOWHERE)
        .when(pl.col("place") < 0).then(_DROPPED)
        .when(~pl.col("today")).then(_LATER)
        .when(pl.col("code").is_null()).then(_EMPTY)
        .otherwise(_GOOD)
        .cast(pl.Int8)
    )  # fmt: skip
    rows = chosen.join(every, on="key", how="left").select(FILE, ROW, "place", "code", kind=kind)
    good = pl.when(pl.col("kind") == _GOOD).then("code").alias("code")
    with reporting(table.name):
        tally = rows.select("kind", good).group_by("kind", "code").len().collect(engine="streaming")
    return _Origin(table, source.code, rows, tally)


def _counted(origin: _Origin, source: Codes) -> list[Rule]:
    """What becomes of the rows of a codes table, each for one reason."""
    name, total = origin.table.name, int(origin.tally["len"].sum())
    if origin.of(_ODD):
        found = _first(origin, pl.col("kind") == _ODD, str(source.day))
        raise Mistake(refusal(origin.table, found, str(source.day), "which is no number of a day: correct it"))
    if total and origin.of(_NOWHERE) == total:
        raise Mistake(
            f"no row of {name} names an admission that is there: check codes.admission = {source.admission!r}"
        )
    reasons = [
        ("codes of admissions that are not there", _NOWHERE, f"{source.admission} is no id of an admission"),
        ("codes of dropped admissions", _DROPPED, "their admission was dropped above"),
        ("codes of other days", _LATER, f"{source.day} is not {source.day_is}, or missing"),
        ("missing codes", _EMPTY, f"{source.code} is missing"),
    ]
    counts = []
    for rule, kind, why in reasons:
        if kind != _LATER or source.day is not None:
            counts.append(Rule(rule, total, origin.of(kind), why, of=f"rows of {name}"))
            total -= origin.of(kind)
    return counts


def _first(origin: _Origin, wrong: pl.Expr, column: str) -> pl.DataFrame:
    """The first row that is wrong, with the value that stands in the file; only looked for before a refusal."""
    firsts = dict(
        origin.rows.filter(wrong).group_by(FILE).agg(pl.col(ROW).min()).collect(engine="streaming").iter_rows()
    )
    file = next(label for label in origin.table.files if label in firsts)
    there = (pl.col(ROW) == firsts[file]) & (pl.col(FILE) == file)
    return origin.table.lazy.filter(there).select(ROW, FILE, column).collect(engine="streaming")


def _vocabulary(path: str | None) -> list[str] | None:
    if path is None:
        return None
    try:
        names = [line.strip() for line in Path(path).read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"the vocabulary {path} cannot be read ({error}): give a text file, one code per line") from None
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise Mistake(f"the vocabulary {path} has {twice!r} twice: remove one")
    return sorted(names)


def _outside(origins: list[_Origin], seen: pl.DataFrame, names: list[str], policy: str) -> list[Rule]:
    unknown = ~pl.col("code").is_in(names)
    if policy == "refuse":
        for origin in origins:
            bad = origin.tally.filter((pl.col("kind") == _GOOD) & unknown)
            if len(bad):
                found = _first(origin, (pl.col("kind") == _GOOD) & unknown, origin.column)
                remedy = "which is not in the vocabulary: correct it, add it, or say features.unknown_codes = 'drop'"
                raise Mistake(refusal(origin.table, found, origin.column, remedy))
    dropped = int(seen.filter(unknown)["len"].sum())
    return [Rule("unknown codes", int(seen["len"].sum()), dropped, "the vocabulary does not have them", of="code rows")]


def _keys(origins: list[_Origin], names: list[str]) -> Array:
    """row * codes + code for every code that is set, sorted: 8 bytes each, and sorted in place."""
    index = pl.DataFrame({"code": names, "at": np.arange(len(names))}).lazy()
    found = []
    for origin in origins:
        good = origin.rows.filter(pl.col("kind") == _GOOD).join(index, on="code", how="inner", maintain_order="none")
        key = good.select(pl.col("place").cast(pl.Int64) * len(names) + pl.col("at"))
        with reporting(origin.table.name):
            found.append(key.collect(engine="streaming").to_series().to_numpy())
    keys: Array = np.concatenate(found)
    keys.sort()
    return keys


def _common(whole: Pairs, sieve: Sieve, schema: Schema) -> Pairs:
    """Without the codes that fewer than `rare_codes` patients have; without a patient column each row is one."""
    least, width = schema.keep.rare_codes or 1, len(whole.names)
    holders = whole.codes
    if schema.main.patient is not None:
        who = sieve.frame.select(sieve.table.text(schema.main.patient).rank("dense")).to_series().to_numpy()
        holders = np.unique(who.astype(np.int64)[whole.rows] * width + whole.codes) % width
    often = np.bincount(holders, minlength=width) >= least
    if not often.any():
        raise Mistake(f"rare_codes = {least}: no code is in that many patients; lower it")
    why = f"fewer than {least:,} patients have it"
    counts = (
        Rule("rare_codes", width, width - int(often.sum()), why, of="codes"),
        Rule("rare_codes", len(whole.codes), int((~often[whole.codes]).sum()), "the code is rare", of="code rows"),
    )
    stays = often[whole.codes]
    renumbered = (np.cumsum(often) - 1).astype(np.int32)
    return Pairs(
        whole.rows[stays],
        renumbered[whole.codes[stays]],
        tuple(name for name, kept in zip(whole.names, often, strict=True) if kept),
        (*whole.counts, *counts),
        (*whole.fitted, f"codes: those that at least {least:,} patients have, counted on the rows"),
    )
