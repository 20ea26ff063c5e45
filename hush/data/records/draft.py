"""A first schema, guessed from the columns of one or two tables, for the user to edit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from hush.data.records.look import NUMERIC, UNUSED, Column, Look, look
from hush.errors import Mistake

_CLIENT = r"hospital|clinic|house|site|cent(er|re)|facility|provider|institution|client|ward|krankenhaus|hopital"
_LABEL = r"^died$|death|dead|mortal|decease|expire|^label|target|outcome|readmi|surviv|event|^y$"
_PATIENT = r"patient|subject|person|mrn"
_ID = r"id$|^id|_no$|_nr$|number|key|admission|encounter|visit|stay|case"
_CODE = r"diag|icd|code|drug|medicine|atc|proc|^dx|ndc|loinc"
_SURELY = r"^icd|_icd|^codes?$|_codes?$|^diag_?\d+$|^dx_?\d*$"  # a code, even if few numbers stand in the column
_CAME = r"^came|admi|arriv|entry|start|begin|from"
_LEFT = r"^left|disch|leave|exit|end|out|until"
_DAY = r"^day|_day"
FEW = 50  # values of a category, at most
SHORT = 12  # a column with fewer values is a category, whatever its name
UNIQUE = 0.95  # share of the rows that an id distinguishes, at least: a few may be there twice


def draft(paths: list[Path], folder: Path) -> str:
    """The TOML of a first schema; the paths in it are those from `folder`, where it shall lie.

    One table is taken as wide. Of two, the one whose column repeats the other's id is the table of codes.
    """
    if len(paths) > 2:
        raise Mistake(f"{len(paths)} tables are too many for a draft: name the admissions and one table of codes")
    tables = [look(path) for path in paths]
    if len(tables) == 1:
        return _written(tables[0], None, folder)
    for main, other in (tables, tables[::-1]):
        if _id(main) is not None and _pick(other.columns, _CODE, lambda c: True) and _link(main, other):
            return _written(main, other, folder)
    raise Mistake(
        f"{paths[0]} and {paths[1]} do not look like admissions and their codes: one needs an id without repeats,"
        " the other a column of the same name and a column of codes; draft the first alone"
    )


def _written(main: Look, codes: Look | None, folder: Path) -> str:
    columns, used = main.columns, set[str]()

    def take(found: Column | None) -> Column | None:
        used.update({found.name} if found else ())
        return found

    id_column = take(_id(main))
    left = _without(columns, used)
    client = take(_pick(left, _CLIENT, lambda c: not c.missing and c.distinct * 2 <= main.rows))
    left = _without(columns, used)
    label = take(_pick(left, _LABEL, lambda c: c.distinct == 2))
    left = _without(columns, used)
    patient = take(_pick(left, _PATIENT, lambda c: not c.missing and c.distinct > FEW))
    for found, what, pattern in (
        (client, "the client (hospital)", _CLIENT),
        (label, "the label, with two values", _LABEL),
    ):
        if found is None:
            names = ", ".join(column.name for column in columns)
            raise Mistake(
                f"no column of {main.path.name} looks like {what} (there are: {names}): rename one to"
                f" {pattern.split('|')[0].strip('^$')!r}, or write the schema by hand"
            )
    assert client is not None
    assert label is not None
    lines = [
        "# A first schema, guessed from the columns: check every line. Paths are read from this file's folder.",
        "",
        "[admissions]" if codes else "[table]",
        *_source(main, folder),
        *([f"id = {_text(id_column.name)}"] if id_column else []),
        *([f"patient = {_text(patient.name)}"] if patient else []),
        f"client = {_text(client.name)}",
        f"label = {_text(label.name)}",
    ]
    if set(label.values) != {"0", "1"}:
        lines.append(f"positive = [{_text(label.values[-1])}]  # guessed: the rarer of {' and '.join(label.values)}")
    if label.missing:
        lines.append(f'unlabelled = "drop"  # {label.missing} rows have no label')
    if codes:
        link = _link(main, codes)
        code = _pick(_without(codes.columns, {str(link)}), _CODE, lambda c: True)
        day = _pick(codes.columns, _DAY, lambda c: c.kind == "integer")
        assert code is not None
        lines += [
            "",
            "[codes]",
            *_source(codes, folder),
            f"admission = {_text(str(link))}",
            f"code = {_text(code.name)}",
        ]
        lines += [f"day = {_text(day.name)}", "day_is = 1"] if day else []
    lines += _features(_without(columns, used), codes is not None)
    if id_column and id_column.distinct < main.rows:
        again = main.rows - id_column.distinct
        lines.append(f'# duplicates = "first"  # {again} rows repeat an id, and are refused without this line')
    return "\n".join([*lines, ""])


def _features(columns: list[Column], has_codes: bool) -> list[str]:
    """The [features] and [keep] tables: numbers and few-valued texts are features, dates give the stay."""
    dates = [column for column in columns if column.kind == "date"]
    came = _pick(dates, _CAME, lambda c: not c.missing)
    left = _pick(_without(dates, {came.name} if came else set()), _LEFT, lambda c: not c.missing)
    if came is None or left is None:  # one date alone gives no stay
        came = left = None
    coded = [c for c in columns if re.search(_CODE, c.name, re.I)]
    codes = [c for c in coded if c.kind == "text" and c.distinct > SHORT]
    codes += [c for c in coded if c.kind in NUMERIC and (c.distinct > FEW or re.search(_SURELY, c.name, re.I))]
    codes = [c for c in columns if c in codes]
    numbers = [c for c in columns if c.kind in NUMERIC and c not in codes]
    levels = [c for c in columns if c.kind == "text" and c not in codes and c.distinct <= FEW]
    lines = ["", "[features]"]
    if codes:
        lines.append(f"codes = [{', '.join(_text(c.name) for c in codes)}]")
    lines += [
        "# Leave out what is known only after the label is. An empty {} or [] is fitted on the data, without noise,"
    ]
    lines += ["# and the privacy card says so: give bounds {min = .., max = ..} and lists where they are public."]
    if numbers:
        lines += ["", "[features.numeric]"]
    for c in numbers:
        policy = '{missing = "median"}' if c.missing else "{}"
        lines.append(f"{_key(c.name)} = {policy}  # from {c.lowest:g} to {c.highest:g}, {c.missing} missing")
    if levels:
        lines += ["", "[features.categorical]"]
    for c in levels:
        seen = ", ".join(c.values) or f"{c.distinct} values"
        lines.append(f"{_key(c.name)} = []  # {seen}; {c.missing} missing")
    lines += ["", "[keep]"]
    if came and left:
        lines += [f"admitted = {_text(came.name)}", f"discharged = {_text(left.name)}", "# min_days = 3"]
    lines += ["# min_age = 18", "# min_rows_per_client = 1000", *(["# rare_codes = 100"] if codes or has_codes else [])]
    named = {c.name for c in [*numbers, *codes, *levels, *(c for c in (came, left) if c)]}
    rest = [c for c in columns if c.name not in named]
    others = [
        f"{c.name} ({c.kind.removesuffix(UNUSED)}{'' if c.kind.endswith(UNUSED) else f', {c.distinct} values'})"
        for c in rest
    ]
    return [*lines, *([f"# Not used: {', '.join(others)}"] if others else [])]


def _source(table: Look, folder: Path) -> list[str]:
    lines = [f"path = {_text(os.path.relpath(table.path, folder))}"]
    lines += [f"separator = {_text(table.separator)}"] if table.separator != "," else []
    lines += [f"decimal = {_text(table.decimal)}"] if table.decimal != "." else []
    return [*lines, *([f"missing = [{', '.join(map(_text, table.missing))}]"] if table.missing else [])]


def _id(table: Look) -> Column | None:
    """The column that distinguishes the rows, but for a few that repeat one."""
    fits = [c for c in table.columns if not c.missing and c.kind != "number" and c.distinct >= UNIQUE * table.rows]
    others = [c for c in fits if not re.search(_PATIENT, c.name, re.I)]
    return _pick([*others, *fits], _ID, lambda c: True)


def _link(main: Look, codes: Look) -> str | None:
    """The column of codes that repeats the id of the main table, by its name."""
    column = _id(main)
    names = {c.name for c in codes.columns if c.distinct < codes.rows}
    return column.name if column is not None and column.name in names else None


def _pick(columns: Iterable[Column], pattern: str, fits: Callable[[Column], bool]) -> Column | None:
    """The first column of values whose name has the pattern and which fits."""
    named = (c for c in columns if re.search(pattern, c.name, re.I) and not c.kind.endswith(UNUSED))
    return next((c for c in named if fits(c)), None)


def _without(columns: Iterable[Column], used: set[str]) -> list[Column]:
    return [column for column in columns if column.name not in used]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string is a TOML string


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
