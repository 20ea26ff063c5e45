"""One client's gradient in a chain of linear layers under cross-entropy, by the products that vmap would take.

It needs no torch.func, whose first gradient imports torch's compiler: two seconds, before a small trial has begun.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.models.entry import entry
from hush.models.losses import Loss
from hush.models.weights import Layout
from hush.parts.trainers.small import chained


def known(model: nn.Module, loss: Loss) -> bool:
    """Whether it is linear layers and ReLUs, behind a Flatten or not, under cross-entropy, in float32."""
    found = entry(model)
    if loss is not F.cross_entropy or found is None or any(p.dtype is not torch.float32 for p in model.parameters()):
        return False
    return chained(nn.Sequential(found.first, *found.rest))


def fits(model: nn.Module, inputs: Tensor, targets: Tensor) -> bool:
    """Whether these are rows for the first layer, with one class each; what is not is refused elsewhere."""
    found = entry(model)
    assert found is not None
    flat = inputs.dim() == 3 or (inputs.dim() > 3 and len(found.rest) + 1 < len(list(model.children())))
    classes = targets.dim() == 2 and targets.dtype == torch.int64
    return flat and classes and inputs.shape[2:].numel() == found.first.in_features


def gradient(model: nn.Module, values: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
    """The gradient at `values` of the mean loss of one client's rows: tensors have a client axis of length one."""
    found = entry(model)
    assert found is not None
    with torch.enable_grad():
        flat = values.detach().requires_grad_()
        weights = iter(Layout.of(model).views(flat[0]).values())
        rows = inputs.flatten(2)
        for layer in (found.first, *found.rest):
            if isinstance(layer, nn.Linear):
                rows = torch.bmm(rows, next(weights)[None].transpose(1, 2))
                rows = rows if layer.bias is None else rows + next(weights)
            else:
                rows = rows.relu()
        (slope,) = torch.autograd.grad(F.cross_entropy(rows[0], targets[0]), flat)
    return slope
