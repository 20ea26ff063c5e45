"""Records: the kept admissions of an export as sparse features, labels and clients."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from hush.data.records import codes, features, labels, queries
from hush.data.records.features import Block
from hush.data.records.places import FROM_PATH, digest, files
from hush.data.records.queries import Answers
from hush.data.records.rules import kept
from hush.data.records.schema import Features, Schema
from hush.data.records.sieve import Rule
from hush.data.records.tables import ROW, open_table, reporting
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.random.seeds import PublicSeed

Array = np.ndarray[Any, Any]
_KINDS = ("numeric", "categorical")
FORMAT = "records 3"  # to be raised when the same files would become other features


@dataclass(frozen=True, eq=False)
class Records:
    """All kept admissions: features, labels, the client (hospital) of each row, and what was done to get there.

    `groups` are the source columns with the number of features of each. `fitted` names, in words, what was taken from
    the data without noise. `patients` says which rows are of the same patient, where the schema names that column.
    `settled` are the schema's features with all that was fitted written down, but for the list of codes, which ends
    `names`. `rows` are the rows' numbers in the table, where they were just read.
    """

    inputs: Sparse
    targets: Tensor
    clients: Array
    names: tuple[str, ...]
    counts: tuple[Rule, ...]
    fitted: tuple[str, ...]
    digest: str
    groups: tuple[tuple[str, int], ...]
    patients: Array | None = None
    settled: Features | None = None
    rows: Array | None = None


def fingerprint(schema: Schema, asked: Answers | None = None) -> str:
    """SHA-256 of the schema and of what every source holds, wherever they lie. `asked`: the answers to its queries."""
    words, asked = schema.features.vocabulary, queries.ask(schema) if asked is None else asked
    named = schema.main.client in FROM_PATH
    held = []
    for source in (schema.main, *schema.codes):
        if source.path is None:
            held.append(queries.digest(asked[str(source.database), str(source.query)]))
            continue
        with reporting(source.path):
            held.append(digest(files(source.path), _called if named else lambda path: ""))
    places = {"path", "database", "query"}
    plain = schema.model_dump_json(
        exclude={
            "admissions": places,
            "table": places,
            "codes": {"__all__": places},
            "features": {"vocabulary"},
            "deal": True,  # of the records that are made
        }
    )
    listed = digest(files(words)) if words is not None else "none"
    return hashlib.sha256(f"{FORMAT} {plain} {held} {listed}".encode()).hexdigest()


def _called(path: Path) -> str:
    return f"{path.resolve().parent.name}/{path.name}"


def build(
    schema: Schema,
    say: Callable[[str], None] = lambda line: None,
    asked: Answers | None = None,
    filled: Mapping[str, str] | None = None,
) -> Records:
    """Read the tables, keep what the rules keep, and make features: numbers, then categories, then codes by name.

    `asked`: the answers to the schema's queries, where they are there already. `filled`: columns that hold one value
    in every row, in place of what the table has.
    """
    asked = queries.ask(schema) if asked is None else asked
    wanted, main = schema.features, schema.main
    table = open_table(main, asked, main.client).filled(filled or {})
    columns = {
        table.check(column, f"features.{kind}")
        for kind in ("numeric", "categorical", "codes")
        for column in getattr(wanted, kind)
    }
    say(f"reading {table.name}")
    sieve = kept(table, main, schema.keep, columns, bool(schema.codes))
    with reporting(table.name):
        ids = table.lazy.select(main.id).collect() if main.id is not None and schema.codes else pl.DataFrame()
    features.check_numbers(sieve, wanted)
    features.check_categories(sieve, wanted)
    fitted = features.cut_clients(sieve, main, schema.keep.min_rows_per_client)
    if not len(sieve.frame):
        lost = ", ".join(f"{rule.name} {rule.dropped}" for rule in sieve.counts if rule.dropped)
        raise Mistake(f"no row of {table.name} is left (dropped: {lost}): loosen the rules of [keep]")
    blocks = [features.numeric(sieve, column, number) for column, number in wanted.numeric.items()]
    blocks += [features.categorical(sieve, column, levels) for column, levels in wanted.categorical.items()]
    targets = torch.from_numpy(labels.labels(sieve, main))
    found = None
    if schema.codes or wanted.codes:
        found = codes.pairs(schema, sieve, ids, say, asked)
    groups = [(block.group, len(block.names)) for block in blocks]
    names = [name for block in blocks for name in block.names]
    patients = None
    if main.patient is not None:
        patients = sieve.frame.select(table.text(main.patient).rank("dense") - 1).to_series().to_numpy()
    return Records(
        _sparse(blocks, found, len(targets)),
        targets,
        sieve.frame.select(table.client(main.client)).to_series().to_numpy().astype(np.str_),
        (*names, *(found.names if found else ())),
        (*sieve.counts, *(found.counts if found else ())),
        (*(line for block in blocks for line in block.fitted), *fitted, *(found.fitted if found else ())),
        fingerprint(schema, asked),
        (*groups, *([("codes", len(found.names))] if found else [])),
        None if patients is None else patients.astype(np.int64),
        _settled(blocks, wanted),
        sieve.frame[ROW].to_numpy(),
    )


def _settled(blocks: list[Block], wanted: Features) -> Features:
    """The features with every bound and every list of levels as they came out."""
    known = {block.group: block.settled for block in blocks}
    parts: dict[str, Any] = {kind: {name: known[name] for name in getattr(wanted, kind)} for kind in _KINDS}
    return wanted.model_copy(update=parts)


def _sparse(blocks: list[Block], found: codes.Pairs | None, rows: int) -> Sparse:
    """The blocks' columns side by side, then the codes; zeros are left out."""
    width, at, value = 0, [], []
    for block in blocks:
        at.append(block.column + np.int32(width))
        value.append(block.value)
        width += len(block.names)
    columns = np.stack(at, axis=1) if at else np.zeros((rows, 0), np.int32)
    values = np.stack(value, axis=1) if value else np.zeros((rows, 0), np.float32)
    there = values != 0
    head = there.sum(axis=1)
    owners = found.rows if found else np.zeros(0, np.int32)
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(head + np.bincount(owners, minlength=rows), out=starts[1:])
    flat = np.empty(int(starts[-1]), np.int32), np.ones(int(starts[-1]), np.float32)
    first = np.repeat(starts[:-1], head) + _places(head)
    flat[0][first], flat[1][first] = columns[there], values[there]
    if found:
        # The code number i stands behind the i codes before it and the heads of its row and of all rows before.
        place = np.arange(len(owners)) + np.cumsum(head)[owners]
        flat[0][place] = found.codes + np.int32(width)
    total = width + (len(found.names) if found else 0)
    return Sparse(torch.from_numpy(starts), torch.from_numpy(flat[0]), torch.from_numpy(flat[1]), total)


def _places(counts: Array) -> Array:
    """0, 1, ... count - 1 for each count, one after the other."""
    ends = np.cumsum(counts)
    found: Array = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return found


def split(records: Records, fraction: float = 0.2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Training and test rows: of each client a random `fraction` is for the test, at least one row for training.

    The draw of a client is named by the client, so that a hospital alone makes the same split. Within a client a
    patient's rows stay on one side, where patients are known; the test part is then no larger than asked for. A patient
    of two clients may be on both sides, as neither knows the other's draw.
    """
    if not 0 < fraction < 1:
        raise Mistake(f"fraction={fraction} must be between 0 and 1: 0.2 holds out a fifth of each client")
    names, client = np.unique(records.clients, return_inverse=True)
    order = np.argsort(client, kind="stable")
    cuts = np.searchsorted(client[order], np.arange(len(names) + 1))
    test = np.zeros(len(client), dtype=bool)
    for number, name in enumerate(names):
        rows = order[cuts[number] : cuts[number + 1]]
        wanted = min(int(len(rows) * fraction + 0.5), len(rows) - 1)
        draw = PublicSeed(seed).generator("records split", str(name))
        if records.patients is None:
            test[rows[draw.permutation(len(rows))[:wanted]]] = True
            continue
        _, patient, sizes = np.unique(records.patients[rows], return_inverse=True, return_counts=True)
        mixed = draw.permutation(len(sizes))
        held = mixed[np.cumsum(sizes[mixed]) <= wanted]
        test[rows[np.isin(patient, held)]] = True
    return torch.from_numpy(np.flatnonzero(~test)), torch.from_numpy(np.flatnonzero(test))
