"""Linear and convolution layers that hold the weights of a few clients and learn while gradients flow back.

Rows of a batch are ordered by client: client c has rows [c * B, (c + 1) * B). A layer takes its own SGD step
in its backward pass, so that no gradient of a whole layer outlives it and no optimizer goes over the weights
again. A layer is called once in a forward pass.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hush.parts.trainers.copies import Narrow, Weights

# Below this fraction of live weights a linear layer keeps one copy of the others for all clients.
SPARSE = 0.05
# Convolutions of so few input channels, and pooling, are faster with channels last on the CPUs at hand.
NARROW = 4


class Learning(nn.Module):
    """A layer in place of nn.Linear or nn.Conv2d. `chunk` is how many clients its batches hold.

    `last`: tensors may be in channels-last order where that is faster.
    """

    def __init__(
        self, layer: nn.Linear | nn.Conv2d, weight: Weights, bias: Weights | None, rate: float, last: bool
    ) -> None:
        super().__init__()
        self.weight, self.bias, self.rate = weight, bias, rate
        self.like: list[Any] = [layer]  # in a list: its parameters are not this module's
        self.chunk = 1
        self.started = False  # whether any client has left the base
        self.last = last and isinstance(layer, nn.Conv2d) and layer.in_channels <= NARROW
        self.function: Any = Convolution
        self.narrow = Narrow.of(layer, weight) if isinstance(layer, nn.Conv2d) else None
        if isinstance(layer, nn.Linear):
            self.function = OwnLinear
            if weight.own is None and weight.spot is not None:
                self.function = SharedLinear
                self.row, self.column = weight.spot // layer.in_features, weight.spot % layer.in_features

    @property
    def live(self) -> bool:
        """Whether anything of it trains."""
        return self.weight.live or (self.bias is not None and self.bias.live)

    def forward(self, x: Tensor) -> Tensor:
        """What nn.Linear or nn.Conv2d gives, with each client's own weights."""
        # The anchor makes autograd call the backward pass of a layer whose input needs no gradient.
        out: Tensor = self.function.apply(x, torch.empty(0, requires_grad=self.live), self)
        return out


class OwnLinear(torch.autograd.Function):
    """y = x W_c' + b_c with a copy of W for each client: products over the client axis."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: Learning) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layer = layer
        if not layer.started:  # all clients are at the base
            return F.linear(x, layer.weight.base, None if layer.bias is None else layer.bias.base)
        if layer.chunk == 1:
            return F.linear(x, layer.weight.of(0), _bias(layer, 0))
        assert layer.weight.own is not None
        y = torch.bmm(x.reshape(layer.chunk, -1, x.shape[-1]), layer.weight.own[: layer.chunk].transpose(1, 2))
        if layer.bias is not None:
            y += layer.bias.base if layer.bias.own is None else layer.bias.own[: layer.chunk].unsqueeze(1)
        return _shaped(y, (*x.shape[:-1], y.shape[-1]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None, None]:
        (x,), layer = ctx.saved_tensors, ctx.layer
        weight, bias = layer.weight, layer.bias
        assert weight.own is not None
        own = weight.own[: layer.chunk]
        rows, slopes = (t.reshape(layer.chunk, -1, t.shape[-1]) for t in (x, g))
        back = None
        if ctx.needs_input_grad[0]:
            if layer.chunk == 1:
                back = (slopes[0] @ own[0]).view(x.shape)
            else:
                back = (torch.bmm(slopes, own) if layer.started else g @ weight.base).view(x.shape)
        if weight.spot is None and layer.chunk == 1:
            own[0].addmm_(slopes[0].t(), rows[0], alpha=-layer.rate)
        elif weight.spot is None:
            own.baddbmm_(slopes.transpose(1, 2), rows, alpha=-layer.rate)
        else:
            weight.step(0, torch.bmm(slopes.transpose(1, 2), rows), layer.rate)
        if bias is not None and bias.live:
            bias.step(0, slopes.sum(1), layer.rate)
        return back, None, None


class SharedLinear(torch.autograd.Function):
    """y = x W' + b_c + the few terms of W's live coordinates that have moved.

    With W[o_j, i_j] live and d_cj its move: y[o_j] += x[i_j] d_cj, and its gradient is the product of
    column i_j of x and column o_j of the slopes, summed over the client's rows. Columns are rows of the
    transposes, so that picking some of them copies whole lines of memory.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: Learning) -> Tensor:
        weight, bias, rows = layer.weight, layer.bias, x.reshape(-1, x.shape[-1])
        y = F.linear(rows, weight.base, None if bias is None or bias.own is not None else bias.base)
        if bias is not None and bias.own is not None:
            y.view(layer.chunk, -1, y.shape[1]).add_(bias.own[: layer.chunk].unsqueeze(1))
        ctx.layer, ctx.shape, ctx.moved = layer, x.shape, layer.started and weight.live
        if weight.live:
            picked = rows.t().contiguous()[layer.column]
            ctx.save_for_backward(picked)
            if ctx.moved:
                y += _terms(layer, layer.row, y.shape[1], picked)
        return _shaped(y, (*x.shape[:-1], y.shape[-1]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None, None]:
        layer: Learning = ctx.layer
        weight, bias, rows = layer.weight, layer.bias, g.reshape(-1, g.shape[-1])
        back = rows @ weight.base if ctx.needs_input_grad[0] else None
        if weight.live:
            assert weight.moved is not None
            (picked,) = ctx.saved_tensors
            slopes = rows.t().contiguous()[layer.row]
            if back is not None and ctx.moved:
                back += _terms(layer, layer.column, back.shape[1], slopes)
            gradient = (slopes * picked).unflatten(1, (layer.chunk, -1)).sum(2)
            weight.moved[: layer.chunk].add_(gradient.t(), alpha=-layer.rate)
        if bias is not None and bias.live:
            bias.step(0, rows.view(layer.chunk, -1, rows.shape[1]).sum(1), layer.rate)
        return (None if back is None else back.view(ctx.shape)), None, None


class Convolution(torch.autograd.Function):
    """A 2-d convolution with a copy of the weights for each client, or the base where nothing of it trains."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: Learning) -> Tensor:
        like = layer.like[0]
        ctx.came_last = x.is_contiguous(memory_format=torch.channels_last)
        x = _channels_last(x) if layer.last else x.contiguous()
        ctx.save_for_backward(x)
        ctx.layer = layer

        def one(c: int, rows: Tensor) -> Tensor:
            weight, bias = layer.weight.of(c), _bias(layer, c)
            return F.conv2d(rows, weight, bias, like.stride, like.padding, like.dilation, like.groups)

        return _each(layer, x, one) if layer.live else one(0, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None, None]:
        (x,), layer = ctx.saved_tensors, ctx.layer
        like, weight, bias = layer.like[0], layer.weight, layer.bias
        g = _channels_last(g) if layer.last else g.contiguous()
        terms = (like.stride, like.padding, like.dilation, False, [0, 0], like.groups)
        chunk = layer.chunk if layer.live else 1
        size, back, narrow = len(x) // chunk, [], layer.narrow
        need = [ctx.needs_input_grad[0], weight.live and narrow is None, False]
        for c in range(chunk if any(need) else 0):
            rows, slopes = x[c * size : (c + 1) * size], g[c * size : (c + 1) * size]
            to_x, to_w, _ = torch.ops.aten.convolution_backward(slopes, rows, weight.of(c), None, *terms, need)
            if need[0]:
                back.append(to_x)
            if need[1]:
                weight.step(c, to_w.unsqueeze(0), layer.rate)
        if narrow is not None:
            some, few = x.index_select(1, narrow.into), g.index_select(1, narrow.out)
            like_it, found = x.new_empty(len(narrow.out), len(narrow.into), *like.kernel_size), []
            for c in range(chunk):
                rows, slopes = some[c * size : (c + 1) * size], few[c * size : (c + 1) * size]
                _, to_w, _ = torch.ops.aten.convolution_backward(
                    slopes, rows, like_it, None, *terms, [False, True, False]
                )
                found.append(to_w.flatten()[narrow.spot])
            weight.shift(0, torch.stack(found), layer.rate)
        if bias is not None and bias.live:
            bias.step(0, g.sum((2, 3)).view(chunk, size, -1).sum(1), layer.rate)
        if not back:
            return None, None, None
        whole = back[0] if chunk == 1 else torch.cat(back)
        return (_channels_last(whole) if ctx.came_last else whole), None, None


class Pool(nn.Module):
    """nn.MaxPool2d with channels last, where it is faster; `back`: what comes out is in the usual order."""

    def __init__(self, pool: nn.MaxPool2d, back: bool = False) -> None:
        super().__init__()
        self.pool, self.back = pool, back

    def forward(self, x: Tensor) -> Tensor:
        """The maxima."""
        out: Tensor = self.pool(_channels_last(x) if x.dim() == 4 else x)
        return out.contiguous() if self.back else out


def _each(layer: Learning, x: Tensor, one: Callable[[int, Tensor], Tensor]) -> Tensor:
    """The function of each client's rows, one after the other."""
    if layer.chunk == 1:
        return one(0, x)
    size = len(x) // layer.chunk
    return torch.cat([one(c, x[c * size : (c + 1) * size]) for c in range(layer.chunk)])


def _shaped(y: Tensor, shape: tuple[int, ...]) -> Tensor:
    """In this shape, and not as a view: what comes next may work in place, which autograd forbids on views."""
    out: Tensor = torch.ops.aten._unsafe_view(y, shape)
    return out


def _bias(layer: Learning, client: int) -> Tensor | None:
    return None if layer.bias is None else layer.bias.of(client)


def _terms(layer: Learning, where: Tensor, size: int, lines: Tensor) -> Tensor:
    """Each line times what its weight has moved by, summed at its place: one row per row of the batch."""
    moved = layer.weight.moved
    assert moved is not None
    spread = moved[: layer.chunk].t().repeat_interleave(lines.shape[1] // layer.chunk, dim=1)
    return lines.new_zeros(size, lines.shape[1]).index_add_(0, where, lines * spread).t()


def _channels_last(x: Tensor) -> Tensor:
    """In channels-last order, also in its strides where there is one channel and the order is in doubt."""
    x = x.contiguous(memory_format=torch.channels_last)
    return x.as_strided(x.shape, (x[0].numel(), 1, x.shape[1] * x.shape[3], x.shape[1]))
