"""Measures of the user's own."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hush.errors import Mistake, first_line
from hush.models.measures.kind import Main, Values, logits

# Of all outputs and all targets: measures by name, or a single number.
Function = Callable[[Any, Tensor], Mapping[str, float] | float]
SMALLER = frozenset({"rmse", "mae", "mse", "error", "perplexity"})  # names of which less is better
# What a line of rounds.jsonl says beside measures.
TAKEN = frozenset(
    "round cohort aborted reason refused level loss clip bytes epsilon seconds kernels measure larger path".split()
)


@dataclass(frozen=True)
class OwnMetrics:
    """A function of the user's own, (outputs, targets) -> {name: number} or a number, over all rows at once.

    decides: which of its measures says what round is the best; the first if not given. larger: whether more of it is
    better; if not given, less is for rmse, mae, mse, error and perplexity, and more for any other.
    """

    function: Function
    decides: str | None = None
    larger: bool | None = None

    def __call__(self, outputs: Any, targets: Tensor) -> Mapping[str, float] | float:
        """What the function says."""
        return self.function(outputs, targets)

    @property
    def name(self) -> str:
        """What a single number is called: as the function is."""
        return str(getattr(self.function, "__name__", type(self.function).__name__)).strip("<>_")

    def part(self, output: Any, targets: Tensor) -> Any:
        """The outputs."""
        return output

    def whole(self, parts: Sequence[Any], targets: Tensor) -> Values:
        """What the function says of all of them; what is not finite is None."""
        outputs = _joined(parts)
        try:
            with torch.inference_mode():
                said = self.function(outputs, targets)
            named = dict(said) if isinstance(said, Mapping) else {self.name: said}
            found = {str(name): float(value) for name, value in named.items()}
        except Mistake:
            raise
        except Exception as error:
            raise Mistake(
                f"the metrics function {self.name} fails: {first_line(error)}: it must take (outputs, targets) and"
                " return a number or a dict of numbers"
            ) from error
        for name in found:
            if name in TAKEN or name.startswith("best_") or not name:
                raise Mistake(f"the metrics function {self.name} calls a measure {name!r}, which is taken: rename it")
        if not found or (self.decides is not None and self.decides not in found):
            raise Mistake(f"the metrics function {self.name} returns no {self.decides or 'measure'}: add it")
        return {name: value if math.isfinite(value) else None for name, value in found.items()}

    def main(self, values: Values) -> Main:
        """The one named, or the first."""
        name = self.decides or next(iter(values))
        return Main(name, name not in SMALLER if self.larger is None else self.larger)


def _joined(parts: Sequence[Any]) -> Any:
    """The outputs of all batches as one: tensors, and dicts and tuples of tensors."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts)) if first.dim() else torch.stack(list(parts))
    if isinstance(first, Mapping):
        return {name: _joined([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple | list):
        return tuple(_joined([part[place] for part in parts]) for place in range(len(first)))
    found = [logits(part) for part in parts]
    kept = [one for one in found if one is not None]
    if len(kept) < len(parts):
        raise Mistake(
            f"the model returns a {type(first).__name__} without logits, and batches of it cannot be joined for a"
            " metrics function: return a tensor, a dict or a tuple of tensors"
        )
    return torch.cat(kept)
