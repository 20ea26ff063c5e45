"""The gradients of clients' losses for the outputs of their networks, of many clients at a time."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.data.padding import IGNORED
from hush.models.losses import Loss, binary
from hush.parts.trainers.lockstep import total

Slopes = Callable[[Tensor], Tensor]  # of outputs: (clients, rows, outputs), in a tensor of its own


def slopes(loss: Loss, outputs: Tensor, targets: Tensor, counts: Tensor | None = None) -> Tensor:
    """d loss_k / d outputs_k, each loss a mean over a client's rows: (clients, rows, outputs).

    counts: how many of the rows are each client's; the others only fill up, and their slopes are zero.
    """
    return given(loss, targets, outputs.shape[2], counts)(outputs)


def given(loss: Loss, targets: Tensor, width: int, counts: Tensor | None = None) -> Slopes:
    """The slopes as a function of outputs alone, `width` for a row: what targets decide is made once for all steps."""
    found = _closed(loss, targets, width, counts)
    if found is not None:
        return found
    if counts is None:
        return lambda outputs: _traced(loss, outputs, targets)
    return lambda outputs: apart(lambda *own: _traced(loss, *own), outputs, targets, counts)


def _traced(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    leaf = outputs.detach().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(summed(loss, leaf, targets), leaf)
    return slope


def apart(of: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, targets: Tensor, counts: Tensor) -> Tensor:
    """Slopes of outputs and targets, of clients with as many rows at a time; zero where rows only fill up."""
    found = torch.zeros_like(outputs)
    for count in sorted(set(counts.tolist())):
        same = (counts == count).nonzero().flatten()
        found[same, :count] = of(outputs[same, :count], targets[same, :count])
    return found


def summed(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """The sum of the clients' losses: client by client where torch.func cannot take the loss."""
    if len(outputs) > 1:
        try:
            return total(loss, outputs, targets)
        except Exception:  # in whatever way it says so; what is wrong with the loss itself comes again
            pass
    return torch.stack([loss(one, which) for one, which in zip(outputs, targets, strict=True)]).sum()


def _closed(loss: Loss, targets: Tensor, width: int, counts: Tensor | None) -> Slopes | None:
    """Where a row's slope has a short form: p - y, over the number of the client's rows."""
    if targets.dim() != 2:
        return None
    if loss is binary and width == 1:
        weights, values = _weights(targets, counts).unsqueeze(2), targets.unsqueeze(2)
        return lambda outputs: outputs.sigmoid().sub_(values).mul_(weights)
    if loss is not F.cross_entropy or targets.is_floating_point() or int(targets.min()) <= IGNORED:
        return None
    weights = _weights(targets, counts)
    hot = torch.zeros(width, *targets.shape).scatter_(0, targets.unsqueeze(0), 1.0)

    def found(outputs: Tensor) -> Tensor:
        # Classes first: torch's softmax of short lines is slow where they lie next to each other.
        slope = outputs.permute(2, 0, 1).softmax(0)
        return slope.sub_(hot).mul_(weights).permute(1, 2, 0)

    return found


def _weights(targets: Tensor, counts: Tensor | None) -> Tensor:
    """Of each row in the mean of its client's loss."""
    rows = targets.shape[1]
    if counts is None:
        return torch.tensor([[1.0 / rows]])
    return (torch.arange(rows) < counts.unsqueeze(1)) / counts.unsqueeze(1)
