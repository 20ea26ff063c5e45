"""Linear and convolution layers that hold the weights of a few clients and learn while gradients flow back.

A batch holds rows of the clients `who` of a chunk, one after the other and as many of each. A layer takes its own SGD
step in its backward pass, so that no gradient of a whole layer outlives it and no optimizer goes over the weights
again. In a step a layer is called once for all clients of the chunk, or for some after the others.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hush.parts.trainers import products
from hush.parts.trainers.copies import Narrow, Turn, Weights

# Below this fraction of live weights a linear layer keeps one copy of the others for all clients.
SPARSE = 0.05
# Convolutions of so few input channels, and pooling, are faster with channels last on the CPUs at hand,
NARROW = 4
# and with these instructions all convolutions.
WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"


class Learning(nn.Module):
    """A layer in place of nn.Linear or nn.Conv2d. `turn`: which clients its next batch holds.

    `last`: tensors may be in channels-last order where that is faster.
    """

    def __init__(
        self, layer: nn.Linear | nn.Conv2d, weight: Weights, bias: Weights | None, rate: float, turn: Turn, last: bool
    ) -> None:
        super().__init__()
        self.weight, self.bias, self.rate, self.turn = weight, bias, rate, turn
        self.live = weight.live or (bias is not None and bias.live)  # whether anything of it trains
        self.like: list[Any] = [layer]  # in a list: its parameters are not this module's
        self.function: Any = Convolution
        self.last = last and isinstance(layer, nn.Conv2d) and (WIDE or layer.in_channels <= NARROW)
        self.narrow = Narrow.of(layer, weight, self.last) if isinstance(layer, nn.Conv2d) else None
        if isinstance(layer, nn.Linear):
            self.function = OwnLinear if weight.history is None else SpanLinear
            if weight.own is None and weight.spot is not None:
                self.function = SharedLinear
                self.row, self.column = weight.spot // layer.in_features, weight.spot % layer.in_features

    def forward(self, x: Tensor) -> Tensor:
        """What nn.Linear or nn.Conv2d gives, with each client's own weights."""
        history, turn = self.weight.history, self.turn
        if history is not None and not turn.started and not history.begin(turn.clients, x[..., 0].numel()):
            self.weight.history, self.function = None, OwnLinear
            self.weight.reset()
        # The anchor makes autograd call the backward pass of a layer whose input needs no gradient.
        out: Tensor = self.function.apply(x, torch.empty(0, requires_grad=self.live), self)
        return out


class OwnLinear(torch.autograd.Function):
    """y = x W_c' + b_c with a copy of W for each client: products over the client axis."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: Learning) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layer, ctx.who, weight, bias = layer, layer.turn.who, layer.weight, layer.bias
        if not layer.turn.started:  # all clients are at the base
            return F.linear(x, weight.base, None if bias is None else bias.base)
        if layer.turn.clients == 1:
            return F.linear(x, weight.of(layer.turn.first), _bias(layer, layer.turn.first))
        assert weight.own is not None
        y = torch.bmm(_apart(x, layer.turn.who), weight.own[layer.turn.who].mT)
        return _biased(y, layer, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None, None]:
        (x,), layer, who = ctx.saved_tensors, ctx.layer, ctx.who
        weight, rows, slopes = layer.weight, _apart(x, who), _apart(g, who)
        assert weight.own is not None
        own = weight.own[who]
        back = None
        if ctx.needs_input_grad[0]:
            if len(own) == 1:
                back = (slopes[0] @ own[0]).view(x.shape)
            else:
                back = (torch.bmm(slopes, own) if layer.turn.started else g @ weight.base).view(x.shape)
        if weight.spot is None and len(own) == 1:
            own[0].addmm_(slopes[0].t(), rows[0], alpha=-layer.rate)
        elif weight.spot is None:
            own.baddbmm_(slopes.mT, rows, alpha=-layer.rate)
        else:
            weight.step(who, torch.bmm(slopes.mT, rows), layer.rate)
        _step(layer, who, slopes)
        return back, None, None


class SpanLinear(torch.autograd.Function):
    """y = x (W + A_c' X_c)' + b_c: what the clients have moved by is a history of few rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: Learning) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layer, ctx.who, history = layer, layer.turn.who, layer.weight.history
        assert history is not None
        return _biased(history.outputs(_apart(x, layer.turn.who)), layer, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None, None]:
        (x,), layer, who = ctx.saved_tensors, ctx.layer, ctx.who
        slopes, history = _apart(g, who), layer.weight.history
        back = history.inputs(slopes).view(x.shape) if ctx.needs_input_grad[0] else None
        history.step(_apart(x, who), slopes, layer.rate)
        _step(layer, who, slopes)
        return back, None, None


class SharedLinear(torch.autograd.Function):
    """y = x W' + b_c + the few terms of W's live coordinates that have moved.

    With W[o_j, i_j] live and d_cj its move: y[o_j] += x[i_j] d_cj, and its gradient is the product of
    column i_j of x and column o_j of the slopes, summed over the client's rows. Columns are rows of the
    transposes, so that picking some of them copies whole lines of memory.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: Learning) -> Tensor:
        weight, rows = layer.weight, x.reshape(-1, x.shape[-1])
        y = products.outputs(rows, weight.base)
        ctx.layer, ctx.who, ctx.shape, ctx.moved = layer, layer.turn.who, x.shape, layer.turn.started and weight.live
        if weight.live:
            picked = rows.t().contiguous()[layer.column]
            ctx.save_for_backward(picked)
            if ctx.moved:
                y += _terms(layer, layer.turn.who, layer.row, y.shape[1], picked)
        return _biased(_apart(y, layer.turn.who), layer, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None, None]:
        layer, who = ctx.layer, ctx.who
        weight, rows = layer.weight, g.reshape(-1, g.shape[-1])
        back = products.inputs(rows, weight.base) if ctx.needs_input_grad[0] else None
        if weight.live:
            assert weight.moved is not None
            (picked,) = ctx.saved_tensors
            slopes = rows.t().contiguous()[layer.row]
            if back is not None and ctx.moved:
                back += _terms(layer, who, layer.column, back.shape[1], slopes)
            moved = weight.moved[who]
            moved.add_((slopes * picked).unflatten(1, (len(moved), -1)).sum(2).t(), alpha=-layer.rate)
        _step(layer, who, _apart(rows, who))
        return (None if back is None else back.view(ctx.shape)), None, None


class Convolution(torch.autograd.Function):
    """A 2-d convolution with a copy of the weights for each client, or the base where nothing of it trains."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: Learning) -> Tensor:
        like, turn = layer.like[0], layer.turn
        ctx.came_last = x.is_contiguous(memory_format=torch.channels_last)
        x = _channels_last(x) if layer.last else x.contiguous()
        ctx.save_for_backward(x)
        ctx.layer, ctx.who, found = layer, turn.who, []
        for client, rows in enumerate(x.chunk(turn.clients), turn.first):
            weight, bias = layer.weight.of(client), _bias(layer, client)
            found.append(F.conv2d(rows, weight, bias, like.stride, like.padding, like.dilation, like.groups))
        turn.widest = max(turn.widest, found[0].numel())
        return _joined(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None, None]:
        (x,), layer, who = ctx.saved_tensors, ctx.layer, ctx.who
        like, weight, bias, narrow = layer.like[0], layer.weight, layer.bias, layer.narrow
        g = _channels_last(g) if layer.last else g.contiguous()
        terms = (like.stride, like.padding, like.dilation, False, [0, 0], like.groups)
        need = [ctx.needs_input_grad[0], weight.live and narrow is None, False]
        clients, back = who.stop - who.start, []
        for client, rows, slopes in zip(range(who.start, who.stop), x.chunk(clients), g.chunk(clients), strict=True):
            if any(need):
                to_x, to_w, _ = torch.ops.aten.convolution_backward(slopes, rows, weight.of(client), None, *terms, need)
                back.append(to_x)
                if need[1]:
                    weight.step(slice(client, client + 1), to_w, layer.rate)
            if narrow is not None:
                some, few = _channels(rows, narrow.into, layer.last), _channels(slopes, narrow.out, layer.last)
                shape = x.new_empty(len(narrow.out), len(narrow.into), *like.kernel_size)
                _, to_w, _ = torch.ops.aten.convolution_backward(few, some, shape, None, *terms, [False, True, False])
                own, picked = weight.of(client).view(-1), to_w.flatten().index_select(0, narrow.spot)
                own.index_add_(0, weight.spot, picked, alpha=-layer.rate)
        if bias is not None and bias.live:
            bias.step(who, g.sum((2, 3)).view(clients, -1, g.shape[1]).sum(1), layer.rate)
        if not need[0]:
            return None, None, None
        whole = _joined(back)
        return (whole.contiguous(memory_format=torch.channels_last) if ctx.came_last else whole), None, None


class Pool(nn.Module):
    """nn.MaxPool2d with channels last, where it is faster; `back`: what comes out is in the usual order."""

    def __init__(self, pool: nn.MaxPool2d, back: bool = False) -> None:
        super().__init__()
        self.pool, self.back = pool, back

    def forward(self, x: Tensor) -> Tensor:
        """The maxima."""
        if x.dim() != 4 or self.pool.return_indices:
            return cast(Tensor, self.pool(x))
        largest: Any = Largest
        out: Tensor = largest.apply(x.contiguous(memory_format=torch.channels_last), self.pool)
        return out.contiguous() if self.back else out


class Largest(torch.autograd.Function):
    """Max pooling that keeps the places of the maxima, but not its input, as torch's own does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pool: nn.MaxPool2d) -> Tensor:
        stride = pool.kernel_size if pool.stride is None else pool.stride
        sizes = (pool.kernel_size, stride, pool.padding, pool.dilation)
        ctx.terms = (*([size, size] if isinstance(size, int) else size for size in sizes), pool.ceil_mode)
        y, places = torch.ops.aten.max_pool2d_with_indices(x, *ctx.terms)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return cast(Tensor, y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        like = torch.empty(ctx.shape, dtype=g.dtype, device=g.device, memory_format=torch.channels_last)
        g = g.contiguous(memory_format=torch.channels_last)
        return torch.ops.aten.max_pool2d_with_indices_backward(g, like, *ctx.terms, places), None


def _joined(found: list[Tensor]) -> Tensor:
    return found[0] if len(found) == 1 else torch.cat(found)


def _apart(x: Tensor, who: slice) -> Tensor:
    """With an axis of clients, and one of a client's rows."""
    return x.reshape(who.stop - who.start, -1, x.shape[-1])


def _biased(y: Tensor, layer: Learning, x: Tensor) -> Tensor:
    """With each client's bias, in the shape of the input but for its last axis.

    Not as a view: what comes next may work in place, which autograd forbids on views.
    """
    bias = layer.bias
    if bias is not None:
        y += bias.base if bias.own is None else bias.own[layer.turn.who].unsqueeze(1)
    out: Tensor = torch.ops.aten._unsafe_view(y, (*x.shape[:-1], y.shape[-1]))
    return out


def _bias(layer: Learning, client: int) -> Tensor | None:
    return None if layer.bias is None else layer.bias.of(client)


def _step(layer: Learning, who: slice, slopes: Tensor) -> None:
    """The step of the bias of a linear layer."""
    if layer.bias is not None and layer.bias.live:
        layer.bias.step(who, slopes.sum(1), layer.rate)


def _terms(layer: Learning, who: slice, where: Tensor, size: int, lines: Tensor) -> Tensor:
    """Each line times what its weight has moved by, summed at its place: one row per row of the batch."""
    assert layer.weight.moved is not None
    moved = layer.weight.moved[who]
    spread = moved.t().repeat_interleave(lines.shape[1] // len(moved), dim=1)
    return lines.new_zeros(size, lines.shape[1]).index_add_(0, where, lines * spread).t()


def _channels(x: Tensor, which: Tensor, last: bool) -> Tensor:
    """Some channels, in the same order of memory."""
    return x.permute(0, 2, 3, 1).index_select(3, which).permute(0, 3, 1, 2) if last else x.index_select(1, which)


def _channels_last(x: Tensor) -> Tensor:
    """In channels-last order, also in its strides where there is one channel and the order is in doubt."""
    x = x.contiguous(memory_format=torch.channels_last)
    return x.as_strided(x.shape, (x[0].numel(), 1, x.shape[1] * x.shape[3], x.shape[1]))
