"""The gradients of clients' losses for the outputs of their networks, of many clients at a time."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.data.padding import IGNORED
from hush.models.losses import Loss, binary
from hush.parts.trainers.lockstep import total


def slopes(loss: Loss, outputs: Tensor, targets: Tensor, counts: Tensor | None = None) -> Tensor:
    """d loss_k / d outputs_k, each loss a mean over a client's rows: (clients, rows, outputs).

    counts: how many of the rows are each client's; the others only fill up, and their slopes are zero.
    """
    found = _closed(loss, outputs, targets)
    if found is not None:
        if counts is None:
            return found.div_(targets.shape[1])
        real = torch.arange(targets.shape[1]) < counts.unsqueeze(1)
        return found.mul_((real / counts.unsqueeze(1)).unsqueeze(2))
    if counts is None:
        leaf = outputs.detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(summed(loss, leaf, targets), leaf)
        return slope
    return apart(lambda *given: slopes(loss, *given), outputs, targets, counts)


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


def _closed(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor | None:
    """Of each row alone, where that has a short form: p - y."""
    if loss is binary and outputs.shape[2] == 1 and targets.dim() == 2:
        return outputs.sigmoid().sub_(targets.unsqueeze(2))
    classes = loss is F.cross_entropy and targets.dim() == 2 and not targets.is_floating_point()
    if not classes or int(targets.min()) <= IGNORED:
        return None
    found = (outputs - outputs.amax(2, keepdim=True)).exp_()  # faster than torch's own softmax of short lines
    found.div_(found.sum(2, keepdim=True))
    return found.scatter_add_(2, targets.unsqueeze(2), found.new_tensor(-1.0).expand(*targets.shape, 1))
