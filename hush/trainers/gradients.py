"""Gradients of many clients at once: every tensor has a leading client axis."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from hush.task import Task

Gradients = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def gradients(task: Task, base: Tensor, live: Tensor | None) -> Gradients:
    """The function (values, inputs, targets) -> (gradients, buffers), each with a leading client axis.

    With `live`, `values` are the live coordinates and all others stand at `base`. Without, they are
    the whole vector. `buffers` are the running statistics after the forward pass.
    """
    layout = task.layout
    others = [name for name, _ in task.model.named_buffers() if name not in layout.buffers]

    def loss(values: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        flat = values if live is None else base.index_copy(0, live, values)
        tensors = layout.views(flat)
        # A forward pass may write to buffers: it gets copies of its own.
        changed = {name: tensors[name].detach().clone() for name in layout.buffers}
        counted = {name: task.model.get_buffer(name).clone() for name in others}
        output = functional_call(task.model, {**tensors, **changed, **counted}, (inputs,))
        after = [changed[name].reshape(-1) for name in layout.buffers]
        return task.loss(output, targets), torch.cat(after) if after else values[:0]

    return vmap(grad(loss, has_aux=True), randomness="different")
