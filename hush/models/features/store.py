"""Features on disk: made once for the same images and the same front, and read again after that.

A file holds the SHA-256 of its name and its content, then the content. One that was cut, changed or renamed is not
used; what it should have held is made anew.
"""

import contextlib
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hush.data import files
from hush.data.store import cache

Numbers = dict[str, int | str | list[int]]


def kept(numbers: Numbers, make: Callable[[], Tensor]) -> Tensor:
    """The float32 tensor that these numbers describe, from the cache, or made and kept there where that is possible."""
    name = hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()
    path = place() / name
    found = _read(path, name)
    if found is None:
        found = make()
        if found.dtype != torch.float32:
            raise TypeError(f"what is kept must be float32, not {found.dtype}")
        stream = io.BytesIO()
        np.save(stream, found.numpy(), allow_pickle=False)
        body = stream.getbuffer()
        with contextlib.suppress(OSError):  # no room, or not allowed: then it is made again next time
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the images may be nobody else's business
            files.write(path, _sum(name, body) + body)
    return found


def digest(tensor: Tensor) -> str:
    """The SHA-256 of the values, as they lie in order."""
    return hashlib.sha256(tensor.contiguous().numpy().data).hexdigest()


def place() -> Path:
    """The folder for features, beside the fetched sets."""
    return cache() / "features"


def _read(path: Path, name: str) -> Tensor | None:
    """The content; None where there is none, or not the right one."""
    try:
        raw = memoryview(path.read_bytes())
    except OSError:
        return None
    if raw[:32] != _sum(name, raw[32:]):
        return None
    # A copy, which torch aligns as what it makes itself: a product may round otherwise where its numbers lie otherwise.
    return torch.from_numpy(np.load(io.BytesIO(raw[32:]), allow_pickle=False)).clone()


def _sum(name: str, body: memoryview) -> bytes:
    whole = hashlib.sha256(name.encode())
    whole.update(body)
    return whole.digest()
