"""Built records in the user's cache: a large export is turned into features once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from hush.data import files
from hush.data.records.building import Records, build, fingerprint
from hush.data.records.queries import ask
from hush.data.records.schema import Features, Schema
from hush.data.records.sieve import Rule
from hush.data.sparse import Sparse
from hush.data.store import cache

KEPT = 4  # files; of a schema that was edited since, the older builds are of no use
_SHA = 32


def stored(schema: Schema, say: Callable[[str], None]) -> Records:
    """The records of a schema: from the cache if its files are unchanged, else built and kept there."""
    asked = ask(schema)
    key = fingerprint(schema, asked)
    path = cache() / "records" / f"{key}.records"
    if path.is_file():
        found = _read(path, key)
        if found is not None:
            return found
        say(f"{path.name} in the cache is damaged; building the records again")
    records = build(schema, say, asked)
    try:
        _write(path, records)
    except OSError as error:
        say(f"the records could not be kept in the cache ({error.strerror}); they will be built again next time")
    return records


def _write(path: Path, records: Records) -> None:
    # They are patients' records: nobody else may read them.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    names, clients = np.unique(records.clients, return_inverse=True)
    facts = {
        "clients": names.tolist(),
        "names": records.names,
        "counts": [asdict(rule) for rule in records.counts],
        "fitted": records.fitted,
        "digest": records.digest,
        "groups": records.groups,
        "width": records.inputs.width,
        "settled": None if records.settled is None else records.settled.model_dump(mode="json"),
    }
    tensors = {
        "starts": records.inputs.starts,
        "columns": records.inputs.columns,
        "values": records.inputs.values,
        "targets": records.targets,
        "clients": torch.from_numpy(clients.astype(np.int32)),
        "facts": torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8),
    }
    if records.patients is not None:
        tensors["patients"] = torch.from_numpy(records.patients)
    body = safetensors.torch.save(tensors)
    files.write(path, hashlib.sha256(body).digest() + body)
    newest = sorted(path.parent.glob("*.records"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in newest[KEPT:]:
        old.unlink(missing_ok=True)


def _read(path: Path, key: str) -> Records | None:
    """The records, or None if a byte of the file is not what was written."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    body = raw[_SHA:]
    if hashlib.sha256(body).digest() != raw[:_SHA]:
        return None
    tensors = safetensors.torch.load(body)
    facts = json.loads(bytes(tensors["facts"].numpy()))
    if facts["digest"] != key:
        return None
    patients = tensors.get("patients")
    return Records(
        Sparse(tensors["starts"], tensors["columns"], tensors["values"], facts["width"]),
        tensors["targets"],
        np.array(facts["clients"], dtype=np.str_)[tensors["clients"].numpy()],
        tuple(facts["names"]),
        tuple(Rule(**rule) for rule in facts["counts"]),
        tuple(facts["fitted"]),
        facts["digest"],
        tuple((group, count) for group, count in facts["groups"]),
        None if patients is None else patients.numpy(),
        None if facts["settled"] is None else Features.model_validate(facts["settled"]),
    )
