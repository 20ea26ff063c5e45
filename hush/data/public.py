"""A public batch for the choice of coordinates: rows that no client holds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import interpolate

from hush.data.fetch import Say, Unavailable, say_aloud
from hush.data.registry import DataSet, dataset
from hush.data.samples import Samples
from hush.errors import Mistake


def public_batch(name: str, size: int, seed: int, shape: Sequence[int], say: Say = say_aloud) -> tuple[Samples, str]:
    """`size` random rows of the named public set as images of `shape` (channels, height, width), and a note.

    A set with public rows of its own gives only those. A set that cannot be had is replaced by the public
    rows of the bundled digits, enlarged, and the note says so. Grey rows serve as colours too: the same in each
    channel. The seed is public.
    """
    if size < 1:
        raise Mistake(f"size={size} must be at least 1: a public batch needs a row")
    try:
        chosen, note = dataset(name, say), ""
    except Unavailable as reason:
        say(str(reason))
        chosen, note = dataset("digits", say), f"; {name} could not be had, so the bundled digits stand in"
    pool = chosen.train if chosen.public is None else chosen.public
    if size > len(pool):
        raise Mistake(f"size={size} exceeds the {len(pool)} public rows of {chosen.name}: take fewer")
    order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed))
    batch = pool.rows(order[:size])
    inputs, resized = _fitted(batch.inputs[:], tuple(shape), chosen)
    return Samples(inputs, batch.targets), f"{size} rows of {chosen.name}{resized}{note}"


def _fitted(inputs: torch.Tensor, shape: tuple[int, ...], chosen: DataSet) -> tuple[torch.Tensor, str]:
    if inputs.shape[1:] == shape:
        return inputs, ""
    if len(shape) != 3 or inputs.dim() != 4 or inputs.shape[1] not in (1, shape[0]):
        raise Mistake(
            f"public rows of {chosen.name} have the shape {tuple(inputs.shape[1:])} and cannot be fitted to "
            f"{shape}: name a public set of that shape"
        )
    how = "" if inputs.shape[1] == shape[0] else f" in grey as {shape[0]} channels"
    if inputs.shape[2:] != shape[1:]:
        inputs = interpolate(inputs, size=shape[1:], mode="bilinear", align_corners=False)
        how += f" resized to {shape[1]}x{shape[2]}"
    return inputs.repeat(1, shape[0] // inputs.shape[1], 1, 1), how
