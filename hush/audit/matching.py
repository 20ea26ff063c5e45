"""Rows found by optimisation: those whose update looks like what was uploaded (Geiping et al. 2020)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from hush.audit.upload import Seen
from hush.errors import Mistake
from hush.random.seeds import PublicSeed

STEEP = 10.0  # of the edges of a smoothed bit, in periods
TINY = 1e-12


@dataclass(frozen=True)
class Matching:
    """Adam on dummy rows: the distance of their update to the upload, and `smooth` times their total variation.

    The update is that of `steps` local steps of `rate` on all rows at once, as the scheme's are in public; labels are
    read off the last layer first. The distance is 1 - cosine. Of signs, it is that of the update's own signs, which
    are made smooth: tanh(u / (soft |u|)), |u| the root mean square of all numbers. Where noise in front of them is
    larger than the update, expected signs are proportional to it: soft is then far above 1. Of bits, it is the same
    and that of the expected bits: set in the second half of the first period of a magnitude, one half beyond. The best
    of `restarts` is kept, by the distance alone.
    """

    rate: float
    steps: int = 1
    iterations: int = 200
    restarts: int = 2
    smooth: float = 0.02
    pace: float = 0.1
    soft: float = 0.03
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rate", "steps", "iterations", "restarts", "pace", "soft"):
            if not getattr(self, name) > 0:
                raise Mistake(f"{name}={getattr(self, name)} of the attack must be positive")

    def reconstruct(self, seen: Seen) -> Tensor:
        """Rows, as many as the upload is of."""
        shape = seen.rows.shape[1:]
        low, high = float(seen.rows.min()), float(seen.rows.max())
        draw = PublicSeed(self.seed).generator("dummies")
        first = torch.from_numpy(draw.random((self.restarts, seen.records, *shape))).to(seen.rows.dtype)
        dummies = (low + (high - low) * first).requires_grad_()
        targets, measure = labels(seen), distance(seen, self.soft)

        def of(rows: Tensor) -> Tensor:
            return measure(self._update(seen, rows, targets))

        adam = torch.optim.Adam([dummies], lr=self.pace * (high - low))
        ends = [self.iterations * part // 8 for part in (3, 5, 7)]
        schedule = torch.optim.lr_scheduler.MultiStepLR(adam, ends, gamma=0.1)
        for _ in range(self.iterations):
            loss = vmap(of)(dummies).sum() + self.smooth * variation(dummies) / (high - low)
            # The sign of the gradient: its size differs by orders of magnitude from pixel to pixel.
            dummies.grad = torch.autograd.grad(loss, dummies)[0].sign()
            adam.step()
            schedule.step()
            with torch.no_grad():
                dummies.clamp_(low, high)
        with torch.no_grad():
            return dummies[int(vmap(of)(dummies).argmin())].clone()

    def _update(self, seen: Seen, rows: Tensor, targets: Tensor) -> Tensor:
        """What a client with these rows would have to say of the live coordinates, before any stage."""
        problem, plan, layout = seen.problem, seen.plan, seen.problem.layout

        def loss(flat: Tensor) -> Tensor:
            return problem.loss(functional_call(problem.model, layout.tensors(flat), (rows,)), targets)

        moved = torch.zeros_like(plan.weights)
        for _ in range(self.steps):
            gradient = grad(loss)(plan.weights + moved)
            if plan.trained is not None:
                gradient = torch.zeros_like(gradient).index_copy(0, plan.trained, gradient[plan.trained])
            moved = moved - self.rate * gradient
        return moved if plan.live is None else moved[plan.live]


def labels(seen: Seen) -> Tensor:
    """The classes of the rows, as far as the last layer shows them.

    Under cross-entropy the update raises the outputs of the classes that are there, and lowers the others. So a class
    has what the upload says of its bias and of its weights, which stand behind inputs that are not negative: the
    largest sums are taken, and again from the largest on where fewer are positive than there are rows.
    """
    found = seen.problem.public or seen.problem.test
    if found is None or found.targets.is_floating_point() or found.targets.dim() != 1:
        raise Mistake("labels are read off for rows of one class each: take the analytic attack, or other data")
    named, known = seen.tensors()
    last = [name for name in named if named[name].dim() == 2][-1:]
    if not last or len(named[last[0]]) < 2:
        raise Mistake("the model has no linear last layer with an output for each class: no labels can be read off it")
    sums = named[last[0]].sum(1) / known[last[0]].sum(1).clamp(min=1)
    bias = last[0].removesuffix("weight") + "bias"
    if bias in named:
        sums = sums + named[bias]
    order = sums.argsort(descending=True)
    positive = max(1, int((sums > 0).sum()))
    return order[torch.arange(seen.records) % min(positive, len(order))]


def distance(seen: Seen, soft: float) -> Callable[[Tensor], Tensor]:
    """How unlike the upload an update is."""
    wanted = F.normalize(seen.numbers.float(), dim=0)
    if seen.code == "numbers":
        return lambda update: 1 - _cosine(update, wanted)

    def signs(update: Tensor) -> Tensor:
        size = update.detach().square().mean().sqrt()
        return 1 - _cosine(torch.tanh(update / (soft * size + TINY)), wanted)

    if seen.code == "signs":
        return signs
    bits, periods = F.normalize(seen.set_bits.float() - 0.5, dim=0), seen.periods.float()

    def both(update: Tensor) -> Tensor:
        turns = update.abs() / periods
        expected = torch.sigmoid(STEEP * (turns - 0.5)) - 0.5 * torch.sigmoid(STEEP * (turns - 1)) - 0.5
        return signs(update) + 1 - _cosine(expected, bits)

    return both


def _cosine(update: Tensor, unit: Tensor) -> Tensor:
    """Of an update and a vector of length one."""
    found: Tensor = torch.dot(update, unit) / (torch.linalg.vector_norm(update) + TINY)
    return found


def variation(rows: Tensor) -> Tensor:
    """The mean step from each pixel to the next, over the last two axes of images, the last of other rows."""
    found = (rows[..., 1:] - rows[..., :-1]).abs().mean()
    if rows.dim() > 4:  # restarts, rows, channels, height, width
        found = found + (rows[..., 1:, :] - rows[..., :-1, :]).abs().mean()
    return found * len(rows)  # each restart has its own
