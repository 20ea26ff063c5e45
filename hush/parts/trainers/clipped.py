"""Sums of clipped gradients, exact for every record:

    sum over a client's records of g_i / max(1, |g_i| / S),   g_i = gradient of loss(model(x_i), y_i)

Each record is run as a batch of its own (torch.func.vmap), so that no model can mix records. Of a linear layer that is
called once, on a vector, no record's gradient is made (`closed.py`). All other parameters get a gradient for each
record, in pieces of a few records. Sparse rows stay sparse where the model begins with a linear layer.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.models.losses import Loss
from hush.models.traits import hooked
from hush.models.weights import Layout, twin
from hush.parts.stages.clip import SLACK
from hush.parts.trainers import closed
from hush.parts.trainers.once import PassTraits, look

# Numbers that a pass may hold: no more than this is made for records without a closed form.
PIECE = 2**23

Named = dict[str, Tensor]


def sums(
    model: nn.Module,
    loss: Loss,
    weights: Tensor,
    inputs: Tensor | Sparse,
    targets: Tensor,
    clip: float,
    counts: list[int],
    live: Tensor | None = None,
    scales: Tensor | None = None,
) -> Tensor:
    """The clipped sums at the live coordinates (all, if None), one row per client; see `ClippedRecords.add`."""
    data = Samples(inputs, targets)
    found = weights.new_zeros(len(counts), weights.numel() if live is None else live.numel())
    ClippedRecords(model, loss, data, live, look(model, loss, data)).add(
        found, weights, data, torch.arange(len(data)), counts, clip, [1.0] * len(counts), scales
    )
    return found


class _Tap(nn.Module):
    """In place of nn.Linear: the gradient of `shift`, which is zero, is that of what comes out; `seen` came in."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.shift, self.seen = torch.empty(0), torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        """What the layer gives."""
        self.seen = x
        return F.linear(x, self.weight, self.bias) + self.shift


class ClippedRecords:
    """A model made ready for sums of clipped gradients over the live coordinates; for one thread.

    `data` says what inputs are like, `known` what the model is. Dropout draws a mask for each record, from torch's own
    generator.
    """

    def __init__(self, model: nn.Module, loss: Loss, data: Samples, live: Tensor | None, known: PassTraits) -> None:
        self.layout = Layout.of(model)
        parts = closed.parts(self.layout, live)
        layers = {place: closed.linear(place, parts) for place in known.closed}
        self.layers = {place: layer for place, layer in layers.items() if layer.weight or layer.bias}
        held = {closed.name(place, what) for place in self.layers for what in ("weight", "bias")}
        self.parts = {name: part for name, part in parts.items() if name not in held}
        self.loss, self.loop = loss, known.loop
        self.model, self.first = twin(model), None
        front = _front(self.model) if isinstance(data.inputs, Sparse) else None
        if front is not None and front[0] in self.layers and self.layers[front[0]].mask is None:
            self.entry: Any = self.model.get_submodule(front[0])
            self.first, self.model = front
        self.taps: dict[str, _Tap] = {}
        for place in self.layers:
            if place != self.first:
                layer: Any = self.model.get_submodule(place)
                self.taps[place] = _Tap(layer)
                self.model = _put(self.model, place, self.taps[place])
        self.names = {name for name, _ in self.model.named_parameters()}
        self.rows = _rows(known, sum(part.shape.numel() for part in self.parts.values()), self.first is not None)
        ways = (0, None, None, 0, 0)
        self._each: Callable[..., Any] = vmap(
            grad(self._one, argnums=(0, 1), has_aux=True), in_dims=ways, randomness="different"
        )

    def add(
        self,
        out: Tensor,
        weights: Tensor,
        data: Samples,
        rows: Tensor,
        counts: list[int],
        clip: float,
        alphas: Sequence[float],
        scales: Tensor | None = None,
    ) -> None:
        """out[k] += alphas[k] * the sum over client k's rows of s_i g_i / max(1, |s_i g_i| / clip), at these weights.

        `rows` of `data` are ordered by client, and counts[k] of them belong to client k. s_i is `scales`, or 1.
        Guarantee: a row moves its client's sum by at most clip. One whose gradient is not finite adds nothing.
        """
        views = self.layout.tensors(weights)
        owners = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts, dtype=torch.int64))
        for first in range(0, len(rows), self.rows):
            piece = slice(first, first + self.rows)
            index, owner = rows[piece], owners[piece]
            pairs, single = self._gradients(views, data, index)
            squares = torch.zeros(len(index), dtype=torch.float64)
            for place, (a, delta) in pairs.items():
                squares += self.layers[place].squares(a, delta)
            for g in single.values():
                squares += closed.squares(g)
            scale = torch.ones(len(index), dtype=torch.float64) if scales is None else scales[piece].double()
            factor = scale / (scale * squares.sqrt() / (clip * SLACK)).clamp(min=1.0)
            keep = squares.isfinite()
            if not keep.all():
                pairs = {place: (_take(a, keep), delta[keep]) for place, (a, delta) in pairs.items()}
                single = {name: g[keep] for name, g in single.items()}
                owner, factor = owner[keep], factor[keep]
            if _tiny(factor, pairs):
                single = {name: _scaled(g, factor) for name, g in single.items()}
                cut = {place: (a, _scaled(delta, factor)) for place, (a, delta) in pairs.items()}
                factor = torch.ones_like(factor)
            else:
                cut = {place: (a, delta * factor.float().unsqueeze(1)) for place, (a, delta) in pairs.items()}
            factor = factor.float()
            for client, mine in _segments(owner):
                for place, (a, delta) in cut.items():
                    self.layers[place].add(out[client], _slice(a, mine), delta[mine], alphas[client])
                for name, g in single.items():
                    out[client, self.parts[name].out].add_(factor[mine] @ g[mine], alpha=alphas[client])

    def _gradients(
        self, views: Named, data: Samples, index: Tensor
    ) -> tuple[dict[str, tuple[Tensor | Sparse, Tensor]], Named]:
        """Of each layer with a closed form (a, delta), of the other live parameters the gradients; a row per record."""
        targets, sparse = data.targets[index], None
        state = {name: view for name, view in views.items() if name in self.names and name not in self.parts}
        opened = {name: views[name] for name in self.parts}
        if self.first is not None:
            assert isinstance(data.inputs, Sparse)
            sparse = data.inputs.take(index)
            x = closed.product(sparse, *self._entry(views))
        else:
            x = data.inputs.index_select(0, index)
        if self.loop:
            return {}, self._picked(self._one_by_one(opened, state, x, targets))
        shifts = {place: tap.weight.new_zeros(len(x), 1, len(tap.weight)) for place, tap in self.taps.items()}
        if self.first is not None:
            shifts[self.first] = torch.zeros_like(x).unsqueeze(1)
        (deltas, found), seen = self._each(shifts, opened, state, x, targets)
        # Norms, factors and sums are those of float32 numbers, whatever precision the passes have.
        pairs: dict[str, tuple[Tensor | Sparse, Tensor]] = {
            p: (seen[p][:, 0].float(), deltas[p][:, 0].float()) for p in self.taps
        }
        if self.first is not None and sparse is not None:
            pairs[self.first] = sparse, deltas[self.first][:, 0]
        return pairs, self._picked(found)

    def _entry(self, views: Named) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the first layer: those that train are among the views."""
        place, bias = self.first or "", self.entry.bias
        weight = views.get(closed.name(place, "weight"), self.entry.weight.detach())
        return weight, None if bias is None else views.get(closed.name(place, "bias"), bias.detach())

    def _one(self, shifts: Named, opened: Named, state: Named, x: Tensor, y: Tensor) -> tuple[Tensor, Named]:
        """The loss of one record, and what came into the tapped layers."""
        for place, tap in self.taps.items():
            tap.shift = shifts[place]
        rows = x.unsqueeze(0) if self.first is None else x.unsqueeze(0) + shifts[self.first]
        value = self.loss(self._run({**opened, **state}, rows), y.unsqueeze(0))
        seen = {place: tap.seen for place, tap in self.taps.items()}
        for tap in self.taps.values():
            tap.seen = tap.shift = torch.empty(0)  # they hold a graph
        return value, seen

    def _run(self, tensors: Named, rows: Tensor) -> Any:
        # A forward pass may write to buffers: it gets copies of its own.
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        return functional_call(self.model, {**tensors, **buffers}, (rows,))

    def _one_by_one(self, opened: Named, state: Named, x: Tensor, targets: Tensor) -> Named:
        """The gradients of a model that torch.func cannot take."""
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in opened.items()}
        found: list[tuple[Tensor, ...]] = []
        for row in range(len(x)):
            with torch.enable_grad():
                output = self._run({**leaves, **state}, x[row : row + 1])
                value = self.loss(output, targets[row : row + 1])
            found.append(torch.autograd.grad(value, list(leaves.values()), materialize_grads=True))
        return {name: torch.stack(grads) for name, grads in zip(leaves, zip(*found, strict=True), strict=True)}

    def _picked(self, gradients: Named) -> Named:
        """The live coordinates of the gradients, flat."""
        flat = {name: g.reshape(len(g), -1).float() for name, g in gradients.items()}
        spots = {name: self.parts[name].spot for name in flat}
        return {name: g if spots[name] is None else g[:, spots[name]] for name, g in flat.items()}


def _front(model: nn.Module) -> tuple[str, nn.Module] | None:
    """The linear layer that a model begins with, and the model behind it; None where it begins otherwise."""
    if type(model) is nn.Linear:
        return "", nn.Sequential()
    if type(model) is not nn.Sequential or hooked(model):
        return None
    children = list(model._modules.items())  # also those that come twice
    for place, (name, child) in enumerate(children):
        if type(child) is nn.Linear:
            return name, nn.Sequential(OrderedDict(children[place + 1 :]))
        if hooked(child) or not (type(child) is nn.Identity or (type(child) is nn.Flatten and child.start_dim == 1)):
            break
    return None


def _put(model: nn.Module, place: str, module: nn.Module) -> nn.Module:
    if not place:
        return module
    model.set_submodule(place, module, strict=True)
    return model


def _rows(known: PassTraits, single: int, sparse: bool) -> int:
    """How many records go through together."""
    return max(1, PIECE // (known.outputs + single + (0 if sparse else known.inputs)))


def _segments(owner: Tensor) -> Iterator[tuple[int, slice]]:
    """Each client that has rows here, and where they are."""
    start = 0
    for client, count in enumerate(torch.bincount(owner).tolist()):
        if count:
            yield client, slice(start, start + count)
            start += count


def _tiny(factor: Tensor, pairs: Mapping[str, tuple[Tensor | Sparse, Tensor]]) -> bool:
    """Whether a factor, or the output's gradient of a clipped record, is below what float32 holds to its digits."""
    if bool((factor < 2.0**-126).any()):
        return True
    clipped = factor < 1
    deltas = (delta.abs().amax(1).double() * factor for _, delta in pairs.values() if delta.numel())
    return any(bool((clipped & (top > 0) & (top < 2.0**-100)).any()) for top in deltas)


def _scaled(x: Tensor, factor: Tensor) -> Tensor:
    """Each row times its factor, by float64 and rounded towards zero: no number grows, and so no norm does."""
    exact = x.double() * factor.unsqueeze(1)
    found = exact.float()
    return torch.where(found.double().abs() > exact.abs(), torch.nextafter(found, torch.zeros_like(found)), found)


def _take(a: Tensor | Sparse, keep: Tensor) -> Tensor | Sparse:
    return a.take(keep.nonzero().flatten()) if isinstance(a, Sparse) else a[keep]


def _slice(a: Tensor | Sparse, rows: slice) -> Tensor | Sparse:
    if isinstance(a, Sparse):
        return a if (rows.start, rows.stop) == (0, len(a)) else a.take(rows)
    return a[rows]
