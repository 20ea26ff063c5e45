"""A kind of task, as far as measures go: what is kept of a batch, and what all batches come to.

Nothing is averaged over batches: the figures are those of the whole set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from hush.errors import Mistake

Values = dict[str, float | None]


class Main(NamedTuple):
    """The measure that decides which round is the best, and whether more of it is better."""

    name: str
    larger: bool


class Kind(Protocol):
    """The measures of a kind of task."""

    def part(self, output: Any, targets: Tensor) -> Any:
        """What is kept of a batch; on any thread."""
        ...

    def whole(self, parts: Sequence[Any], targets: Tensor) -> Values:
        """The measures, from all parts in their order; None where one is not defined."""
        ...

    def main(self, values: Values) -> Main:
        """Which of them decides."""
        ...


@dataclass(frozen=True)
class LossOnly:
    """No measure but the loss: where it is not certain what the outputs mean."""

    def part(self, output: Any, targets: Tensor) -> None:
        """Nothing."""

    def whole(self, parts: Sequence[Any], targets: Tensor) -> Values:
        """None."""
        return {}

    def main(self, values: Values) -> Main:
        """The loss, of which less is better."""
        return Main("loss", False)


def logits(output: Any) -> Tensor | None:
    """The tensor that measures are taken of: the output, or what a dict or an object calls logits; None: neither."""
    if isinstance(output, Tensor):
        return output
    found = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    return found if isinstance(found, Tensor) else None


def tensor(output: Any, kind: str) -> Tensor:
    """The same, for a kind that cannot do without."""
    found = logits(output)
    if found is None:
        raise Mistake(
            f"metrics={kind!r} needs a tensor, and the model returns a {type(output).__name__} without logits: give"
            " metrics as a function (outputs, targets) -> dict"
        )
    return found


def mismatch(kind: str, output: Tensor, targets: Tensor) -> Mistake:
    """That outputs and targets are not of one kind."""
    return Mistake(
        f"metrics={kind!r} does not fit outputs of shape {tuple(output.shape)} and targets of {tuple(targets.shape)}:"
        " give metrics as a function (outputs, targets) -> dict"
    )
