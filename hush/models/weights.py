"""A model's weights as one flat vector, and back."""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from hush.random.seeds import PublicSeed


@dataclass(frozen=True)
class Layout:
    """Where each trained parameter, and after them each running statistic, lies in the flat vector.

    Running statistics are the buffers of normalisation layers that batches change. Other buffers, and
    parameters that need no gradient, are left to the model: they neither train nor travel. The flat vector is float32,
    whatever the model computes in: `dtypes` are its own.
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    parameters: int
    buffers: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]

    @classmethod
    def of(cls, model: nn.Module) -> "Layout":
        """The layout of a model."""
        parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        buffers = [
            (f"{place}.{name}" if place else name, buffer)
            for place, module in model.named_modules()
            if isinstance(module, _NormBase) and module.track_running_stats
            for name, buffer in module.named_buffers()
            if buffer.is_floating_point()
        ]
        tensors: list[tuple[str, Tensor]] = [*parameters, *buffers]
        names, shapes = tuple(n for n, _ in tensors), tuple(t.shape for _, t in tensors)
        trained = sum(p.numel() for _, p in parameters)
        return cls(names, shapes, trained, tuple(n for n, _ in buffers), tuple(t.dtype for _, t in tensors))

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(shape.numel() for shape in self.shapes)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The named tensors, as views of the flat vector."""
        pieces = torch.split(flat, [shape.numel() for shape in self.shapes])
        return {n: p.view(s) for n, p, s in zip(self.names, pieces, self.shapes, strict=True)}

    def tensors(self, flat: Tensor) -> dict[str, Tensor]:
        """The named tensors in the model's own precision; views where that is the flat vector's."""
        return {n: v.to(d) for (n, v), d in zip(self.views(flat).items(), self.dtypes, strict=True)}


def flatten(model: nn.Module) -> Tensor:
    """A copy of the model's weights (and running statistics) as one float32 vector."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return torch.cat([state[name].detach().reshape(-1).float() for name in Layout.of(model).names])


def precision(model: nn.Module) -> torch.dtype:
    """What the model computes in: the type of its first parameter that has a fraction."""
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def twin(model: nn.Module) -> nn.Module:
    """The same model in modules of its own, for a thread of its own: tensors are shared, not copied."""
    shared: dict[int, object] = {id(t): t for t in (*model.parameters(), *model.buffers())}
    for module in model.modules():  # what an earlier pass left there cannot be copied with its history
        shared |= {id(t): t.detach() for t in vars(module).values() if isinstance(t, Tensor) and not t.is_leaf}
    return copy.deepcopy(model, shared)


def bound(model: nn.Module, flat: Tensor) -> nn.Module:
    """A twin whose trained parameters and running statistics are those of the flat vector, for forward passes."""
    views = Layout.of(model).tensors(flat)
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    fresh = {id(state[name]): view for name, view in views.items()}
    found = twin(model)
    for module in found.modules():
        for name, parameter in module._parameters.items():
            if id(parameter) in fresh:
                module._parameters[name] = nn.Parameter(fresh[id(parameter)], requires_grad=False)
        for name, buffer in module._buffers.items():
            if id(buffer) in fresh:
                module._buffers[name] = fresh[id(buffer)]
    return found


def load(model: nn.Module, flat: Tensor) -> None:
    """Write the flat vector into the model."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, tensor in Layout.of(model).views(flat).items():
            state[name].copy_(tensor)


def loaded(model: nn.Module, flat: Tensor) -> nn.Module:
    """A copy of the model with these weights."""
    found = copy.deepcopy(model)
    load(found, flat)
    return found


def glorot(model: nn.Module, seed: PublicSeed) -> nn.Module:
    """Initialise in place: weights uniform on ±sqrt(6 / (fan in + fan out)), biases zero.

    The papers' initialisation (Keras). Their clipping bounds come out with it, not with PyTorch's own.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2:
                parameter.zero_()
                continue
            field = parameter[0, 0].numel()
            limit = np.sqrt(6.0 / (field * (parameter.shape[0] + parameter.shape[1])))
            draw = seed.generator("init", name).uniform(-limit, limit, parameter.shape)
            parameter.copy_(torch.from_numpy(draw))
    return model
