"""Whether model, loss and rows fit, tried on two rows before anything is charged or written."""

import threading
import warnings
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor
from torch.func import functional_call

from hush.data.samples import Samples
from hush.errors import Mistake, first_line
from hush.models.losses import binary, family, ignored, plain, squared
from hush.models.measures.kind import logits
from hush.models.metrics import Judged, evaluate
from hush.models.traits import seeded
from hush.models.weights import flatten, twin

HALF = (torch.float16, torch.bfloat16)
CLOSE = 1e-4  # of two losses that are the same up to rounding

_tried: WeakKeyDictionary[Judged, WeakSet[Samples]] = WeakKeyDictionary()
_lock = threading.Lock()


def check(problem: Judged, parts: dict[str, Samples | None]) -> None:
    """Refuse, in a sentence, what could not be trained or judged; by name of the part: train, public, test.

    Two rows of each part go through forward, loss and backward, and those of the test through the evaluation. It draws
    nothing that a run draws, and leaves the model as it is. What was tried once is not tried again.
    """
    for name, rows in parts.items():
        if rows is None:
            continue
        with _lock:
            known = _tried.setdefault(problem, WeakSet())
            if rows in known:
                continue
        _Trial(problem, rows, name).run()
        if name == "test":
            _judge(problem, rows)
        with _lock:
            known.add(rows)


def spread(output: Tensor) -> Tensor:
    """Outputs, in float32 or more, each a little apart where all are alike."""
    wide = output.float() if output.dtype in HALF else output
    return wide + 0.1 * torch.sin(torch.arange(output.numel(), dtype=wide.dtype)).view(output.shape)


def _judge(problem: Judged, rows: Samples) -> None:
    """The evaluation, of two rows; a function of the user's may need all of them."""
    few = rows if callable(problem.metrics) else rows.rows(_two(rows))
    try:
        with seeded(0):
            evaluate(problem, flatten(problem.model), few, workers=1)  # other threads would wait for the draws
    except Mistake:
        raise
    except Exception as error:
        raise Mistake(f"the model cannot be judged on the test rows ({first_line(error)}): give metrics") from error


def _two(rows: Samples) -> Tensor:
    """The row with the smallest target and the one with the largest: what a loss cannot take is likely there."""
    flat = rows.targets.reshape(len(rows), -1)
    if not flat.shape[1]:
        return torch.tensor([0, len(rows) - 1])
    low, high = int(flat.amin(1).argmin()), int(flat.amax(1).argmax())
    return torch.tensor([low, high if high != low else (low + 1) % len(rows)])


class _Trial:
    """Two rows of a part."""

    def __init__(self, problem: Judged, rows: Samples, name: str) -> None:
        self.problem, self.rows, self.name, self.few = problem, rows, name, rows.rows(_two(rows))

    def run(self) -> None:
        """Forward, loss, backward."""
        output = self._forward(self.few, training=True)
        found, targets = logits(output), self.few.targets
        if found is not None:
            if not found.dim() or len(found) != len(targets):
                raise Mistake(
                    f"the model gives outputs of shape {tuple(found.shape)} for {len(targets)} rows: keep the first"
                    " axis, one entry for each row, and flatten in the loss if need be"
                )
            self._shapes(found, targets)
            self._labels(found)
        value = self._loss(output, targets)
        self._backward(value)
        self._rows_apart(targets)

    def _forward(self, rows: Samples, training: bool) -> Any:
        model = self.problem.model
        copied = twin(model)
        copied = copied if training else copied.eval()
        inputs = rows.inputs[:].clone()
        with seeded(0), torch.enable_grad():
            try:
                return functional_call(copied, {name: b.clone() for name, b in copied.named_buffers()}, (inputs,))
            except Mistake:
                raise
            except Exception as error:
                what = f"{self.name} rows of shape {tuple(inputs.shape[1:])}, {_kind(inputs)}"
                raise Mistake(f"the model fails on {what} ({first_line(error)}): make the two fit") from error

    def _value(self, output: Any, targets: Tensor) -> Any:
        """What the loss gives; torch warns where shapes are paired all with all, which is refused in a sentence."""
        with seeded(0), torch.enable_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using a target size")
            return self.problem.loss(output, targets)

    def _loss(self, output: Any, targets: Tensor) -> Tensor:
        found = logits(output)
        try:
            value = self._value(output, targets)
        except Mistake:
            raise
        except Exception as error:
            raise Mistake(
                f"the loss fails on {_outputs(output)} and {self.name} targets of {_shape(targets)}, {_kind(targets)}"
                f" ({first_line(error)}): make the two fit"
            ) from error
        if not isinstance(value, Tensor):
            raise Mistake(f"the loss gives a {type(value).__name__}, not a tensor: return the mean over the rows")
        if value.dim():
            raise Mistake(
                f"the loss gives {tuple(value.shape)} numbers and not one: take their mean, as reduction='mean' does"
            )
        if not bool(value.isfinite()):
            shown = float(value.detach())
            fault = "" if found is None or bool(found.isfinite().all()) else ", and so are outputs of the model"
            raise Mistake(
                f"the loss is {shown:g} on {self.name} rows at the first weights{fault}: check inputs, targets"
                " and how the model is initialised"
            )
        return value

    def _backward(self, value: Tensor) -> None:
        """On the user's own parameters, whose .grad stays as it is."""
        trained = [parameter for parameter in self.problem.model.parameters() if parameter.requires_grad]
        if not value.requires_grad:
            raise Mistake(
                "the loss does not depend on the model's weights by a gradient: leave out argmax, detach and no_grad"
            )
        try:
            slopes = torch.autograd.grad(value, trained, allow_unused=True)
        except Exception as error:
            raise Mistake(f"the loss has no gradient ({first_line(error)}): use operations that have one") from error
        if not all(bool(slope.isfinite().all()) for slope in slopes if slope is not None):
            raise Mistake(
                f"the gradient is NaN or infinite on {self.name} rows at the first weights: check the loss, and how the"
                " model is initialised"
            )

    def _labels(self, output: Tensor) -> None:
        """All targets of the part are classes that the model knows."""
        targets, like = self.rows.targets, family(self.problem.loss)
        if like == "labels":
            low, high = float(targets.min()), float(targets.max())
            if low < 0 or high > 1:
                raise Mistake(
                    f"{self.name} targets go from {low:g} to {high:g}, and this loss takes 0 and 1: correct them, or"
                    " take cross-entropy with one output for each class"
                )
        if (
            like != "classes"
            or output.dim() < 2
            or targets.is_floating_point()
            or targets.shape[1:] != output.shape[2:]
        ):
            return
        kept, classes = targets[targets != ignored(self.problem.loss)], output.shape[1]
        low, high = (int(kept.min()), int(kept.max())) if len(kept) else (0, 0)
        if low < 0:
            raise Mistake(f"{self.name} targets have the label {low}: count the classes from 0")
        if high >= classes:
            given = "one output" if classes == 1 else f"{classes} outputs"
            other = ", or take binary-cross-entropy" if classes == 1 and high == 1 else ", or correct the labels"
            raise Mistake(
                f"the model gives {given} and {self.name} targets have the label {high}: give it {high + 1}{other}"
            )

    def _shapes(self, output: Tensor, targets: Tensor) -> None:
        """What torch's losses would refuse in their own words, or pair all with all."""
        loss, like = plain(self.problem.loss), family(self.problem.loss)
        same = output.numel() == targets.numel()
        if like is None or output.shape == targets.shape or (loss in (binary, squared) and same):
            return
        if like == "classes":
            wanted = (output.shape[0], *output.shape[2:])
            if targets.shape == wanted or targets.is_floating_point():
                return
            if targets.shape == (*wanted, 1):
                raise Mistake(
                    f"{self.name} targets have the shape {_shape(targets)}, and this loss takes one class for each row:"
                    f" give {_shape(targets[..., 0])}, as y.squeeze(-1)"
                )
            if output.shape[:-1] == targets.shape:
                raise Mistake(
                    f"the model gives {_shape(output)} for targets of {_shape(targets)}, and this loss takes the"
                    " classes as second axis: return x.transpose(1, -1), or do so in the loss"
                )
            return
        if not same:
            remedy = "one output for each number" + (", or take cross-entropy" if like == "labels" else "")
            raise Mistake(
                f"the model gives {_shape(output)} and {self.name} targets have the shape {_shape(targets)}: give the"
                f" model {remedy}"
            )
        raise self._paired(output, targets)

    def _rows_apart(self, targets: Tensor) -> None:
        """That each row counts by itself, and once: not all outputs against all targets, and not as a sum."""
        output = self._forward(self.few, training=False)
        found = logits(output)
        with torch.no_grad():
            if found is output and found.shape != targets.shape and found.numel() == targets.numel():
                self._broadcast(found, targets)
            once = float(self._loss(output, targets))
            twice = self.few.rows(torch.tensor([0, 1, 0, 1]))
            double = float(self._loss(self._forward(twice, training=False), twice.targets))
        if abs(once) > 1e-9 and abs(double - 2 * once) <= CLOSE * abs(double):
            raise Mistake(
                "the loss is a sum over the rows, since a batch of twice the rows has twice the loss: take the mean, as"
                " reduction='mean' does"
            )

    def _broadcast(self, output: Tensor, targets: Tensor) -> None:
        """Whether (N, 1) and (N,) are paired all with all: the loss of two rows is not the mean of their losses."""
        apart = spread(output)
        try:
            whole, right = (float(self._value(apart, t)) for t in (targets, targets.reshape(output.shape)))
            rows = [float(self._value(apart[i : i + 1], targets[i : i + 1])) for i in range(2)]
        except Exception:  # a loss that takes the shapes as they are, and no others
            return
        mean = sum(rows) / 2
        if abs(whole - mean) > CLOSE * abs(mean) >= abs(right - mean):
            raise self._paired(output, targets)

    def _paired(self, output: Tensor, targets: Tensor) -> Mistake:
        remedy = "y[:, None]" if output.dim() > targets.dim() else "y.squeeze(1)"
        return Mistake(
            f"the model gives {_shape(output)} and {self.name} targets have the shape {_shape(targets)}, so that this"
            f" loss does not pair them row by row: give targets as {remedy}, or reshape the outputs"
        )


def _shape(found: Tensor) -> str:
    """With N for the rows."""
    return str(("N", *found.shape[1:])).replace("'", "") if found.dim() else "a single number"


def _outputs(output: Any) -> str:
    return f"outputs of {_shape(output)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"


def _kind(found: Tensor) -> str:
    return str(found.dtype).removeprefix("torch.")
