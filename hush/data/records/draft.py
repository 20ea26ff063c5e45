"""A first schema, guessed from the columns of one or two tables, for the user to edit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from hush.data.records.look import NUMERIC, SHOWN, UNUSED, Column, Look, backwards, look
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


def draft(paths: list[Path], folder: Path, label: str | None = None, client: str | None = None) -> str:
    """The TOML of a first schema; the paths in it are those from `folder`, where it shall lie.

    One table is taken as wide. Of two, the one whose column repeats the other's id is the table of codes. `label` and
    `client` are columns that the user names; without a client, each of several files is one.
    """
    if len(paths) > 2:
        raise Mistake(
            f"{len(paths)} tables are too many for a draft: name the admissions and one table of codes, or the folder"
            " of a table in several files"
        )
    tables = [look(path) for path in paths]
    if len(tables) == 1:
        return _written(tables[0], None, folder, label, client)
    for main, other in (tables, tables[::-1]):
        if _id(main) is not None and _pick(other.columns, _CODE, lambda c: True) and _link(main, other):
            return _written(main, other, folder, label, client)
    raise Mistake(
        f"{paths[0]} and {paths[1]} do not look like admissions and their codes: one needs an id without repeats,"
        " the other a column of the same name and a column of codes; draft the first alone"
    )


def _written(main: Look, codes: Look | None, folder: Path, label: str | None, client: str | None) -> str:
    columns, used = main.columns, {name for name in (label, client) if name is not None}
    id_column = _id(main, used)
    used |= {id_column.name} if id_column else set()
    holder = client or _client(main, used)
    used.add(holder)
    predicted = _label(main, label, used)
    used.add(predicted.name)
    left = _without(columns, used)
    patient = _pick(left, _PATIENT, lambda c: not c.missing and c.distinct > FEW)
    used |= {patient.name} if patient else set()
    lines = [
        "# A first schema, guessed from the columns: check every line. Paths are read from this file's folder.",
        "",
        "[admissions]" if codes else "[table]",
        *_source(main, folder),
        *([f"id = {_text(id_column.name)}"] if id_column else []),
        *([f"patient = {_text(patient.name)}"] if patient else []),
        f"client = {_text(holder)}" + _called(main, holder),
        f"label = {_text(predicted.name)}",
        *_classes(predicted),
    ]
    if predicted.missing:
        lines.append(f'unlabelled = "drop"  # {predicted.missing} rows have no label')
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
    lines += _features(main, _without(columns, used), codes is not None)
    if id_column and id_column.distinct < main.rows:
        again = main.rows - id_column.distinct
        lines.append(f'duplicates = "first"  # {again} rows repeat an id; without this line they are refused')
    return "\n".join([*lines, ""])


def _client(main: Look, used: set[str]) -> str:
    """The column that looks like the hospital, or the file's name where there are several files."""
    found = _pick(_without(main.columns, used), _CLIENT, lambda c: not c.missing and c.distinct * 2 <= main.rows)
    if found is not None:
        return found.name
    if main.files > 1:
        return "file"
    raise Mistake(
        f"no column of {main.path.name} looks like the client (hospital; there are: {_names(main)}): name it with"
        " --client COLUMN, or say --client file if the whole file is of one"
    )


def _called(main: Look, holder: str) -> str:
    return "" if holder in [c.name for c in main.columns] else "  # the name of each file, without its end"


def _label(main: Look, wanted: str | None, used: set[str]) -> Column:
    """The column that the user names, or one with two values that looks like a label."""
    if wanted is not None:
        found = next((c for c in main.columns if c.name == wanted), None)
        if found is None:
            raise Mistake(f"--label {wanted} is not a column of {main.path.name}: name one of {_names(main)}")
        if found.distinct < 2 or found.distinct > SHOWN or found.kind.endswith(UNUSED):
            raise Mistake(
                f"--label {wanted} has {found.distinct} different values in {main.path.name}: name a column with 2 to"
                f" {SHOWN}, or write the schema by hand"
            )
        return found
    found = _pick(_without(main.columns, used), _LABEL, lambda c: c.distinct == 2)
    if found is None:
        raise Mistake(
            f"no column of {main.path.name} looks like the label, with two values (there are: {_names(main)}): name it"
            " with --label COLUMN"
        )
    return found


def _classes(label: Column) -> list[str]:
    """Which values are 1; none where the column has the classes 0, 1, ... themselves."""
    numbers = [str(n) for n in range(label.distinct)]
    if sorted(label.values) == numbers:
        ones = ", ".join(numbers[1:])
        return (
            [f"# positive = [{ones}]  # in place of {label.distinct} classes, a yes or no"] if len(numbers) > 2 else []
        )
    rare, others = label.values[-1], label.values[:-1]
    zeros = ", ".join(map(_text, others))
    return [
        f"positive = [{_text(rare)}]  # guessed: the rarer of {' and '.join(label.values)}"
        if len(others) == 1
        else f"positive = [{_text(rare)}]  # guessed: the rarest; these count as 0, move those that are 1",
        *([f"negative = [{zeros}]"] if len(others) > 1 else []),
    ]


def _names(main: Look) -> str:
    return ", ".join(column.name for column in main.columns)


def _features(main: Look, columns: list[Column], has_codes: bool) -> list[str]:
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
        wrong = backwards(main, came.name, left.name)
        if wrong:
            lines.append(
                f'wrong_dates = "drop"  # {wrong} rows end before they begin; without this line they are refused'
            )
    lines += ["# min_age = 18", "# min_rows_per_client = 1000", *(["# rare_codes = 100"] if codes or has_codes else [])]
    named = {c.name for c in [*numbers, *codes, *levels, *(c for c in (came, left) if c)]}
    rest = [c for c in columns if c.name not in named]
    others = [
        f"{c.name} ({c.kind.removesuffix(UNUSED)}{'' if c.kind.endswith(UNUSED) else f', {c.distinct} values'})"
        for c in rest
    ]
    return [*lines, *([f"# Not used: {', '.join(others)}"] if others else [])]


def _source(table: Look, folder: Path) -> list[str]:
    source = table.source
    lines = [f"path = {_text(os.path.relpath(table.path, folder))}"]
    if source.columns is not None:
        note = "" if table.named else "  # no file has names for them: give better ones"
        lines.append(f"columns = [{', '.join(map(_text, source.columns))}]{note}")
    lines += [f"separator = {_text(source.separator)}"] if source.separator is not None else []
    lines += [f"encoding = {_text(source.encoding)}  # guessed, as it is not UTF-8"] if source.encoding else []
    if isinstance(source.decimal, dict):
        signs = ", ".join(f"{_text(file)} = {_text(sign)}" for file, sign in source.decimal.items())
        lines.append(f"decimal = {{ {signs} }}")
    elif source.decimal != ".":
        lines.append(f"decimal = {_text(source.decimal)}")
    if table.missing:
        low = ", ".join(table.sentinels)
        note = f"  # {low}: as no other number is below 0; take it out if it is one" if low else ""
        lines.append(f"missing = [{', '.join(map(_text, table.missing))}]{note}")
    return lines


def _id(table: Look, used: Collection[str] = ()) -> Column | None:
    """The column that distinguishes the rows, but for a few that repeat one."""
    free = _without(table.columns, used)
    fits = [c for c in free if not c.missing and c.kind != "number" and c.distinct >= UNIQUE * table.rows]
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


def _without(columns: Iterable[Column], used: Collection[str]) -> list[Column]:
    return [column for column in columns if column.name not in used]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string is a TOML string


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
