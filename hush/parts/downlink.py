"""The way down: the weights as clients get them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hush.core.packing import Buckets
from hush.core.protocols import Downlink


@dataclass(frozen=True)
class Coarse(Downlink):
    """q = round(w + e) to 2^bits - 1 levels of the largest of each `bucket` weights, then e <- w + e - q.

    The error e stays at the server and goes with the next round's weights, so that what all rounds sent sums up to
    what they meant but for the last e, which is at most half a level. One round alone is off by two errors in place of
    one. The server moves the weights themselves.
    """

    bits: int = 8
    bucket: int = 512

    def __post_init__(self) -> None:
        _ = self.form  # which refuses what does not fit

    @property
    def form(self) -> Buckets:
        """A scale for each bucket, and the levels."""
        return Buckets(self.bits, self.bucket)

    def send(self, weights: Tensor, downlink_error: Tensor | None) -> tuple[Tensor, Tensor]:
        """To the nearest level; what it is off is downlink_error."""
        wanted = weights if downlink_error is None else weights + downlink_error
        numbers, form = np.ascontiguousarray(wanted.numpy(), dtype=np.float32), self.form
        scales = form.scales(numbers)
        # A copy, which torch aligns: where numpy's numbers lie is accident, and a product may round otherwise there.
        sent = torch.from_numpy(form.values(np.rint(form.levels(numbers, scales)), scales)).clone()
        return sent, wanted - sent
