"""The features of a trained model on other tables: the very same columns, with all that was fitted written down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from hush.data.records.building import Records, build
from hush.data.records.schema import Features, Schema
from hush.data.records.sources import written
from hush.data.records.tables import ROW, open_table, reporting
from hush.data.sparse import Sparse
from hush.errors import Mistake

Described = dict[str, Any]
Array = np.ndarray[Any, Any]


def described(schema: Schema, records: Records) -> Described:
    """The schema in JSON's own types, without its paths: every bound, every level and every code as it came out."""
    assert records.settled is not None
    known = schema.model_dump(mode="json", exclude_none=True, exclude={"deal"})
    known["features"] = records.settled.model_dump(mode="json", exclude_none=True, exclude={"vocabulary"})
    coded = schema.codes or schema.features.codes
    count = dict(records.groups).get("codes", 0)
    known["vocabulary"] = list(records.names[len(records.names) - count :]) if coded else None
    if schema.features.vocabulary is None or schema.keep.rare_codes is not None:
        known["features"]["unknown_codes"] = "drop"  # no error of whoever writes a row later
    known["keep"].pop("rare_codes", None)  # which chose the codes, once
    known["names"] = list(records.names)
    for table in (known.get("table"), known.get("admissions"), *known.get("codes", ())):
        if table is not None:  # where the rows were, and how they were asked for, is not the model's to say
            table.pop("database", None)
            table.pop("query", None)
            table["path"] = Path(table.get("path", "table")).name
    return known


def applied(schema: Schema, known: Described, folder: Path) -> Schema:
    """A schema with the model's features in place of its own; `folder`: where the list of codes is put."""
    keep = schema.keep.model_copy(update={"rare_codes": None})
    return schema.model_copy(update={"features": _features(known, folder), "keep": keep})


def read(
    path: Path, known: Described, folder: Path, say: Callable[[str], None]
) -> tuple[Sparse, Tensor | None, Array, int]:
    """The rows of a table as the model takes them, their labels if all have one, their numbers, and how many were left
    out by the rules of [keep].

    The table needs no column of labels or of clients.
    """
    if known.get("table") is None:
        raise Mistake(f"{path} is one table, and the model's records are in two: write a schema.toml that names yours")
    if not path.is_file():
        raise Mistake(f"{path} is not there: give a table, an .npz file or the name of a data set")
    plain = {key: part for key, part in known.items() if key not in ("vocabulary", "features", "names")}
    keep = {key: part for key, part in known["keep"].items() if key != "min_rows_per_client"}
    whole = Schema.model_validate({**plain, "keep": keep, "features": known["features"]})
    main = whole.main.model_copy(update={"path": str(path), "patient": None})
    schema = whole.model_copy(update={"table": main, "features": _features(known, folder)})
    table = open_table(main, {}, main.client)
    blank = {main.label: written(main.positive[0]) if main.positive else "0"}
    filled = blank | ({} if main.client in table.kinds or table.by_path else {main.client: path.stem})
    records = build(schema, say, {}, filled)
    assert records.rows is not None
    check(records.names, known, str(path))
    with reporting(table.name):
        total = int(table.lazy.select(pl.len()).collect().item())
        targets = None
        if main.label in table.kinds:
            column = table.category(main.label)
            values = table.lazy.select(ROW, text=column, number=table.number(main.label)).collect()
            kept = values.filter(values[ROW].is_in(records.rows.tolist()))
            if not kept["text"].null_count():
                words = [written(value) for value in main.positive or ()]
                found = kept["text"].is_in(words) if main.positive is not None else kept["number"]
                targets = None if found.null_count() else torch.from_numpy(found.to_numpy().astype(np.int64))
    return records.inputs, targets, records.rows, total - len(records.rows)


def check(names: tuple[str, ...], known: Described, where: str) -> None:
    """Refuse features that are not the model's, one by one."""
    if list(names) != known["names"]:
        raise Mistake(f"{where} gives {len(names)} columns that are not the model's {len(known['names'])}: check it")


def _features(known: Described, folder: Path) -> Features:
    words = known.get("vocabulary")
    place = None
    if words is not None:
        place = folder / "vocabulary.txt"
        place.write_text("\n".join(words) + "\n")
    found = Features.model_validate(known["features"])
    return found.model_copy(update={"vocabulary": None if place is None else str(place)})
