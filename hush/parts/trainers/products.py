"""The products of a linear layer that many rows share, by oneDNN: with AVX-512 twice as fast as torch's own.

Torch's own go to MKL, which keeps to AVX2 on processors of other makers. The operation is the one that torch's compiler
takes for a linear layer; it reads its arguments where they lie, transposed ones too.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

SMALL = 2**20  # multiplications below which it costs more to prepare a product of a new shape

_linear: Callable[..., Tensor] | None = (
    torch.ops.mkldnn._linear_pointwise if hasattr(torch.ops.mkldnn, "_linear_pointwise") else None
)


def outputs(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b, a line for each row of x."""
    if _linear is None or len(x) * weight.numel() < SMALL or not _taken(x, weight):
        return F.linear(x, weight, bias)
    return _linear(x.contiguous(), weight, bias, "none", [], "")


def inputs(slopes: Tensor, weight: Tensor) -> Tensor:
    """slopes W: the gradient of the inputs, from that of the outputs."""
    return outputs(slopes, weight.t())


def weights(slopes: Tensor, x: Tensor) -> Tensor:
    """slopes' x: the gradient of the weights, summed over rows."""
    return outputs(slopes.t(), x.t())


def _taken(*given: Tensor) -> bool:
    return all(t.device.type == "cpu" and t.dtype is torch.float32 and t.numel() > 0 for t in given)
