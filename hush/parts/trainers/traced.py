"""A frozen body in a model's own `forward`: found by following what goes where (torch.fx).

What depends on the rows alone, and on no weight that trains, is the front; what it gives has to come through one
tensor with a row per row. That it treats each row by itself is tried on a few rows, which must come out the same alone
as together. A model whose code cannot be followed is left whole, and one line in the log says what to do about it.
"""

import logging
import threading
from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from hush.data.sparse import Sparse
from hush.models.traits import draws, seeded
from hush.models.weights import Layout, twin
from hush.parts.trainers.prefix import Cut

LOG = logging.getLogger("hush")
ROWS = 4  # that the front is tried on
CLOSE = 1e-4  # what a row alone may differ from the same row among others, of the largest number

_known: WeakKeyDictionary[nn.Module, dict[Hashable, Cut | None]] = WeakKeyDictionary()
_lock = threading.RLock()


def cut(model: nn.Module, inputs: Tensor | Sparse, live: Tensor | None) -> Cut | None:
    """The model in two, behind all that needs no gradient; None where that is nothing, or cannot be found."""
    opened = _opened(model, live)
    if len(opened) == sum(1 for _ in model.parameters()):
        return None
    modes = (*(m.training for m in model.modules()), *(p.requires_grad for p in model.parameters()))
    held = tuple(id(tensor) for tensor in (*model.parameters(), *model.buffers()))  # another body, another cut
    with draws, _lock:
        found = _known.setdefault(model, {})
        key = (opened, modes, held)
        if key not in found:
            found[key] = _found(model, inputs[:ROWS], opened)
            if found[key] is None:
                _say(model, opened)
        return found[key]


def _opened(model: nn.Module, live: Tensor | None) -> frozenset[str]:
    """The parameters of which anything is live."""
    layout = Layout.of(model)
    names = [name for name in layout.names if name not in layout.buffers]
    if live is None:
        return frozenset(names)
    sizes = torch.tensor([shape.numel() for shape in layout.shapes[: len(names)]])
    ends = torch.searchsorted(live.cpu(), torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])).tolist()
    return frozenset(name for name, low, high in zip(names, ends, ends[1:], strict=False) if high > low)


class _Whole(nn.Module):
    """A model that is called with its rows alone: what else its forward could take stands at its default."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> object:
        """The model's output."""
        return self.model(x)


class _Tracer(fx.Tracer):
    """It looks into modules with live weights; frozen ones are one step, whatever their code does."""

    def __init__(self, opened: frozenset[str]) -> None:
        super().__init__()
        self.opened, self.own = opened, threading.get_ident()

    # While it traces, torch calls these for every module of the process: other threads go on as they were.

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """As a step of the graph, in the thread that traces."""
        if threading.get_ident() != self.own:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """A parameter as a node of the graph, in the thread that traces."""
        if threading.get_ident() != self.own:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether to stay out of it."""
        held = [name for name, _ in m.named_parameters(remove_duplicate=False)]
        place = module_qualified_name.removeprefix("model").removeprefix(".")
        frozen = bool(held) and not any(f"{place}.{name}" in self.opened for name in held) and bool(place)
        return frozen or super().is_leaf_module(m, module_qualified_name)


def _found(model: nn.Module, inputs: Tensor, opened: frozenset[str]) -> Cut | None:
    whole = _Whole(twin(model))
    try:
        graph = _Tracer(opened).trace(whole)
        halves = _halves(whole, graph, frozenset(id(p) for n, p in model.named_parameters() if n in opened))
        if halves is None or not _right(whole, *halves, inputs):
            return None
    except Exception:  # code that cannot be followed, in whatever way torch says so
        return None
    front, back = halves
    # The trained weights of the front, which stay as they are, must come first in the flat vector.
    mine = [id(p) for p in front.parameters() if p.requires_grad]
    rest = [id(p) for p in back.parameters() if p.requires_grad]
    if not any(True for _ in front.parameters()) or mine + rest != [
        id(p) for p in model.parameters() if p.requires_grad
    ]:
        return None
    start = sum(p.numel() for p in front.parameters() if p.requires_grad)
    return Cut(front, back, start, len(front.graph.nodes))


def _halves(whole: nn.Module, graph: fx.Graph, live: frozenset[int]) -> tuple[fx.GraphModule, fx.GraphModule] | None:
    """What the rows go through before they meet a live weight, and the rest."""
    frozen: set[fx.Node] = set()
    for node in graph.nodes:
        held: list[nn.Parameter] = []
        if node.op == "call_module":
            held = list(whole.get_submodule(node.target).parameters())
        elif node.op == "get_attr":
            value = _attribute(whole, node.target)
            held = [value] if isinstance(value, nn.Parameter) else []
        free = not any(id(p) in live for p in held)
        if node.op != "output" and free and all(given in frozen for given in node.all_input_nodes):
            frozen.add(node)
    # What needs no rows (weights, constants) can stand in both halves; what comes of rows has to be handed on.
    constant: set[fx.Node] = set()
    for node in graph.nodes:
        if node in frozen and node.op != "placeholder" and all(given in constant for given in node.all_input_nodes):
            constant.add(node)
    given = [n for n in frozen - constant if any(user not in frozen for user in n.users)]
    if len(given) != 1 or given[0].op == "placeholder":
        return None
    # A step whose result nobody uses may be there for what it does to another's.
    if any(not n.users for n in graph.nodes if n.op not in ("placeholder", "get_attr", "output")):
        return None
    (border,) = given
    (end,) = (node for node in graph.nodes if node.op == "output")
    front, back = fx.Graph(), fx.Graph()
    first: dict[fx.Node, fx.Node] = {}
    later: dict[fx.Node, fx.Node] = {border: back.placeholder("given")}
    for node in _needed(graph, border, set()):
        first[node] = front.node_copy(node, first.__getitem__)
    front.output(first[border])
    for node in _needed(graph, end, {border}):
        later[node] = back.node_copy(node, later.__getitem__)
    return _module(whole, front), _module(whole, back)


def _needed(graph: fx.Graph, end: fx.Node, known: set[fx.Node]) -> list[fx.Node]:
    """The steps up to this one that it depends on, in their order, without those behind what is known."""
    wanted, waiting = set(known), [end]
    while waiting:
        node = waiting.pop()
        if node not in wanted:
            wanted.add(node)
            waiting += node.all_input_nodes
    return [node for node in graph.nodes if node in wanted - known or (node.op == "placeholder" and not known)]


def _module(whole: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """A part of the model, with its modules in the order that the model has them in: so lie its weights."""
    made = fx.GraphModule(whole, graph)
    for place, module in made.named_modules():
        like = dict(whole.named_modules()).get(place)
        if like is not None:
            for kind in ("_modules", "_parameters"):
                order = {name: number for number, name in enumerate(getattr(like, kind))}
                held = getattr(module, kind)
                ordered = sorted(held.items(), key=lambda item: order.get(item[0], len(order)))
                held.clear()
                held.update(ordered)
    return made


def _right(whole: nn.Module, front: nn.Module, back: nn.Module, inputs: Tensor) -> bool:
    """Whether the halves give what the whole does, and the front treats each row by itself."""
    with seeded(0), torch.no_grad():
        given = front(inputs.clone())
        if not isinstance(given, Tensor) or given.dim() < 1 or len(given) != len(inputs) or len(inputs) < 2:
            return False
        alone = torch.cat([front(inputs[place : place + 1].clone()) for place in range(len(inputs))])
        if alone.shape != given.shape or not bool(given.isfinite().all()):
            return False
        if float((alone - given).abs().max()) > CLOSE * float(given.abs().max()):
            return False
        return _same(whole(inputs.clone()), back(given.clone()))


def _same(one: object, other: object) -> bool:
    """The same numbers, in whatever they come."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, tuple | list):
        return isinstance(other, tuple | list) and len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and _same(vars(one), vars(other)) if hasattr(one, "__dict__") else one == other


def _attribute(whole: nn.Module, target: object) -> object:
    found: object = whole
    for name in str(target).split("."):
        found = getattr(found, name)
    return found


def _say(model: nn.Module, opened: frozenset[str]) -> None:
    """How to have most of the model run once, where most of it is a part that does not train."""
    total = sum(p.numel() for p in model.parameters())
    for place, module in model.named_modules():
        held = [f"{place}.{name}" for name, _ in module.named_parameters()]
        size = sum(p.numel() for p in module.parameters())
        if place and held and 2 * size >= total and not opened.intersection(held):
            LOG.warning(
                "%s does not train and still runs in every step: with nn.Sequential(%s, the rest), and %s.eval() if it"
                " has dropout, it runs once per sample",
                place,
                place,
                place,
            )
            return
