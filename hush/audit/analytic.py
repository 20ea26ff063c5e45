"""Rows read off the first layer, where it is linear with a bias: no search, no labels.

The update of unit j's weights is a_j x, that of its bias a_j, for a row x: their ratio is x. Of several rows it is a
mixture of those at which the unit is active.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hush.audit.upload import Seen
from hush.errors import Mistake
from hush.models.weights import Layout

PASSES = 60  # of the two least squares; noiseless uploads are exact after a few
ALIKE = 1e-6  # units of one row are parallel up to rounding: 1 - |cosine|


@dataclass(frozen=True)
class Analytic:
    """The matrix Y = [weights' update, bias' update] as a b', with b = [x, 1] and as few units' a as it takes.

    Both are found in turn by least squares over the numbers that were sent. What they leave over is taken for noise,
    by which x is drawn to the mean of public rows, the more the less a pixel differs between these: nothing of an
    upload without noise, nearly all under much noise, and all of a pixel that nothing was sent of.

    Signs are those of a times those of x. So the same finds the sign of each pixel, and public rows say what pixels of
    that sign are like. A zero's sign is random, or plus: there, units are taken from the mean of all units first.

    Several rows: units that are active for one row alone are parallel, and the largest sets of parallel units are one
    row each. Where there are fewer such sets than rows, single units stand for the others: mixtures.
    """

    def reconstruct(self, seen: Seen) -> Tensor:
        """Rows, as many as the upload is of."""
        updates, known = first_layer(seen)
        public = seen.rows.flatten(1).double()
        code = public if seen.code == "numbers" else public.sign()
        if seen.code == "bits" and bool(known.all()):
            updates = updates - updates.mean(0)
        mean, spread = code.mean(0), code.var(0, correction=0)
        # A pixel that is the same in all public rows may still differ in others.
        spread = spread + 0.01 * spread.mean() + torch.finfo(spread.dtype).tiny
        found = torch.stack([_row(updates[own], known[own], mean, spread) for own in _units(updates, seen.records)])
        if seen.code != "numbers":
            slope = ((public - public.mean(0)) * (code - mean)).mean(0) / spread
            found = public.mean(0) + slope * (found - mean)
        rows = seen.rows
        return found.clamp(float(rows.min()), float(rows.max())).to(rows.dtype).view(-1, *rows.shape[1:])


def readable(layout: Layout, size: int) -> bool:
    """Whether rows of so many numbers meet a linear layer with a bias first."""
    shapes = layout.shapes
    return len(shapes) > 1 and len(shapes[0]) == 2 and shapes[0][1] == size and shapes[1] == shapes[0][:1]


def first_layer(seen: Seen) -> tuple[Tensor, Tensor]:
    """Of each unit, what was sent of its weights and its bias; and where anything was (1, else 0)."""
    named, known = seen.tensors()
    if not readable(seen.problem.layout, seen.rows[0].numel()):
        raise Mistake("the first layer is not linear with a bias, and no row can be read off it: take Matching")
    weight, bias = list(named)[:2]
    return (
        torch.cat([named[weight], named[bias].unsqueeze(1)], 1),
        torch.cat([known[weight], known[bias].unsqueeze(1)], 1),
    )


def _units(updates: Tensor, rows: int) -> list[Tensor]:
    """Which units are of which row."""
    active = updates.abs().amax(1).nonzero().flatten()
    if rows == 1 or not len(active):
        return [active] * rows
    unit = torch.nn.functional.normalize(updates[active], dim=1)
    parallel = 1 - (unit @ unit.T).abs() < ALIKE
    left, found = torch.ones(len(active), dtype=torch.bool), []
    for _ in range(rows):
        counts = (parallel & left).sum(1) * left
        mine = parallel[int(counts.argmax())] & left
        found.append(active[mine])
        left &= ~mine
    return found


def _row(updates: Tensor, known: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """x, from updates a [x, 1] of some units, by way of a."""
    tiny = torch.finfo(updates.dtype).tiny
    x = torch.cat([mean, mean.new_ones(1)])
    free = max(1.0, float(known.sum() - known.any(1).sum() - known.any(0).sum()))
    prior, vary = x, torch.cat([spread, spread.mean().unsqueeze(0)])
    for _ in range(PASSES):
        length = known @ x.square() + tiny
        a = updates @ x / length
        noise = (updates - known * a.unsqueeze(1) * x).square().sum() / free
        # Noise alone would give a unit an a of its own length: what is above that is the rows'.
        excess = (a.square() - noise / length).mean().clamp(min=0)
        a = a * excess / (excess + noise / length + tiny)
        weight = noise / vary + tiny
        x = (updates.T @ a + weight * prior) / (known.T @ a.square() + weight)
        x = x / torch.where(x[-1].abs() < 1e-6, 1.0, x[-1])  # the last is the bias, whose input is 1
    return x[:-1]
