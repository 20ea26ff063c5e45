"""Any model that trains by autograd: one client after the other, as one would write it on a page.

For what torch.func cannot take: recurrent layers and fused attention have no rule for an axis of clients, and code may
branch on what it computes.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hush.models.losses import Loss
from hush.models.weights import Layout, twin
from hush.parts.trainers.vmapped import Gradients


def gradients(model: nn.Module, loss: Loss, base: Tensor, live: Tensor | None) -> Gradients:
    """The function of `vmapped.gradients`, client by client."""
    layout, model = Layout.of(model), twin(model)
    others = [name for name, _ in model.named_buffers() if name not in layout.buffers]

    def one(values: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = values.detach().requires_grad_()
            tensors = layout.tensors(leaf if live is None else base.index_copy(0, live, leaf))
            changed = {name: tensors[name].detach().clone() for name in layout.buffers}
            counted = {name: model.get_buffer(name).clone() for name in others}
            output = functional_call(model, {**tensors, **changed, **counted}, (inputs,))
            value = loss(output, targets)
            (slope,) = torch.autograd.grad(value, leaf, materialize_grads=True) if value.requires_grad else (None,)
        after = [changed[name].reshape(-1).float() for name in layout.buffers]
        return values.new_zeros(values.shape) if slope is None else slope, torch.cat(after) if after else values[:0]

    def every(values: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        found = [one(*client) for client in zip(values, inputs, targets, strict=True)]
        slopes, buffers = zip(*found, strict=True)
        return torch.stack(slopes), torch.stack(buffers)

    return every
