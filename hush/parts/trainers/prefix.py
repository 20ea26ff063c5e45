"""Layers in front of the first live coordinate: run once per sample, not once per step.

They give the same for a client in every round as long as their weights stay, so what they gave is kept, up to
a number of bytes. A client's rows go through them together, in one order and in pieces of one size, whoever
else is in the block: what comes out does not depend on what was kept before.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from hush.core.task import Population
from hush.models.traits import hooked, rowwise
from hush.models.weights import bound
from hush.parts.trainers.layers import Pool

PIECE = 256  # rows of one client in one pass


@dataclass(frozen=True)
class Cut:
    """A model in two: `front` has no live coordinate, `back` begins at weight `start` of the flat vector.

    place: how far back the cut is, in children or steps.
    """

    front: nn.Module
    back: nn.Module
    start: int
    place: int


@dataclass
class Features:
    """What the front gave for each client, as long as its trained weights and what else it holds are these."""

    weights: Tensor
    place: int
    others: list[tuple[int, int]]
    rows: dict[int, Tensor] = field(default_factory=dict)
    bytes: int = 0


_known: WeakKeyDictionary[Population, Features] = WeakKeyDictionary()
_lock = threading.Lock()


def cut(model: nn.Module, live: Tensor | None) -> Cut | None:
    """The cut in front of the first child of a Sequential with a live coordinate; None where it gains nothing."""
    if type(model) is not nn.Sequential or hooked(model):
        return None
    first = 0 if live is None else int(live[0])
    start, place = 0, 0
    seen: set[int] = set()
    for child in model:
        fresh = [p for p in child.parameters() if p.requires_grad and id(p) not in seen]
        seen.update(id(p) for p in fresh)
        size = sum(p.numel() for p in fresh)
        if start + size > first or not rowwise(child):
            break
        start, place = start + size, place + 1
    children = list(model)
    front, back = nn.Sequential(*children[:place]), nn.Sequential(*children[place:])
    held = {id(p) for p in front.parameters()}
    if not held or start > first or any(id(p) in held for p in back.parameters()):
        return None
    return Cut(front, back, start, place)


def features(held: Population, found: Cut, weights: Tensor, clients: list[int], budget: int) -> list[Tensor]:
    """What the front gives for all rows of each client of these."""
    mine, place = weights[: found.start], found.place
    still = [p for p in found.front.parameters() if not p.requires_grad]
    others = [(t.data_ptr(), t._version) for t in (*still, *found.front.buffers())]
    with _lock:
        kept = _known.get(held)
        if kept is None or (kept.place, kept.others) != (place, others) or not torch.equal(kept.weights, mine):
            kept = _known[held] = Features(mine.clone(), place, others)
    run = front(found, weights)
    out = []
    for client in clients:
        rows = kept.rows.get(client)
        if rows is None:
            rows = run(held.data.inputs[held.split.rows_of(client)])
            with _lock:
                if client not in kept.rows and kept.bytes + rows.nbytes <= budget:
                    kept.rows[client] = rows
                    kept.bytes += rows.nbytes
        out.append(rows)
    return out


def front(found: Cut, weights: Tensor) -> Callable[[Tensor], Tensor]:
    """The function from rows of one client to what the front gives for them."""
    model = bound(found.front, weights[: found.start])
    for place, module in list(model.named_modules()):
        if type(module) is nn.MaxPool2d:
            model.set_submodule(place, Pool(module, back=True))

    def run(rows: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([model(piece) for piece in torch.split(rows, PIECE)])

    return run
