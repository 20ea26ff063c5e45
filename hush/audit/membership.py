"""From a released model: was a record, or a client, among those it was trained on? (LiRA, Carlini et al. 2022.)

Many models are trained, each on a half of the units that is drawn at random: records, or clients with all their rows.
Each of them is attacked in turn, and the others are its shadows: they show how large the loss of a unit is where it was
in the training and where it was not. The score is the ratio of the two likelihoods of the loss that is observed.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.audit.bounds import Floats
from hush.audit.chunks import Say
from hush.audit.curves import Curve
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.federation.simulated import Simulated, Transport, rounds
from hush.models.outputs import passes
from hush.models.weights import bound
from hush.random.seeds import PublicSeed, SecretSeed

Bools = npt.NDArray[np.bool_]
Unit = Literal["record", "client"]
LEAST = 6  # models: beside a target and the one with the other half, two shadows of either kind


@dataclass(frozen=True, eq=False)
class Membership:
    """The curve of the likelihood ratios, and that of the loss alone, over all units of all models that were attacked.

    A positive is a unit that a model was trained on.
    """

    unit: Unit
    models: int
    curve: Curve
    baseline: Curve


class Halves(NamedTuple):
    """Who trains: of each model, which units are `inside`. Models 2k and 2k + 1 have the two halves of one draw."""

    inside: Bools
    tasks: tuple[Task, ...]


def membership(
    scheme: Scheme,
    task: Task,
    rounds: int,
    shadows: int = 16,
    seed: int = 0,
    *,
    unit: Unit = "record",
    transport: Transport | None = None,
    say: Say | None = None,
) -> Membership:
    """Train `shadows` models by the scheme for so many rounds, on halves of the task, and attack each of them.

    Weights to begin with and public draws are the same for all, as an attacker knows them; secret ones are not.
    """
    inside, tasks = halves(task, shadows, seed, unit)
    known = task.train.rows(task.split.rows)  # client by client
    losses = []
    for number, half in enumerate(tasks):
        secret = SecretSeed.simulated(int(PublicSeed(seed).generator("shadow", number).integers(2**62)))
        weights = trained(scheme, half, rounds, seed, secret, transport, _counted(say, number, shadows))
        losses.append(record_losses(task, weights, known))
    return attacked(np.stack(losses), inside, None if unit == "record" else task.split.starts[:-1].numpy())


def attacked(losses: Floats, inside: Bools, starts: npt.NDArray[np.int64] | None = None) -> Membership:
    """The attack on models of which all losses are known: of each model (row) those of all records.

    `inside` says which units each model was trained on. A unit is a record; with `starts` it is a client, whose losses
    begin there and end where the next one's do. Half of the models must have each unit inside, or about half.
    """
    units = losses.shape[1] if starts is None else len(starts)
    if losses.ndim != 2 or inside.shape != (len(losses), units):
        raise Mistake(f"inside has the shape {inside.shape} and must say it of {units} units of {len(losses)} models")
    if not np.isfinite(losses).all() or (losses < 0).any():
        raise Mistake("losses must be numbers from 0 on: a likelihood ratio cannot be taken of others")
    statistics, plain = _together(scaled(losses), starts), _together(-losses, starts)
    ratios = np.empty_like(statistics)
    for target in range(len(statistics)):
        # The other half of the target's draw would say of each unit what is to be found out.
        left = (inside != ~inside[target]).any(1)
        left[target] = False
        ratios[target] = likelihood_ratios(statistics[target], statistics[left], inside[left])
    found = (Curve.of(scores[inside], scores[~inside]) for scores in (ratios, plain))
    return Membership("record" if starts is None else "client", len(losses), *found)


def likelihood_ratios(observed: Floats, shadows: Floats, inside: Bools) -> Floats:
    """log N(x; mean, deviation inside) - log N(x; mean, deviation outside) of each unit's statistic x.

    Means are the unit's own, over the shadows that have it inside and those that have not. Deviations are of all units
    together, since a few shadows say little of one unit's (as the paper does below 64).
    """
    found = np.zeros_like(observed)
    for sign, where in ((1.0, inside), (-1.0, ~inside)):
        count = where.sum(0)
        if (count < 1).any() or count.sum() <= len(observed):
            raise Mistake("there are too few shadows with a unit inside, or without it: train more models")
        mean = np.where(where, shadows, 0.0).sum(0) / count
        squares = np.square(np.where(where, shadows - mean, 0.0)).sum()
        deviation = max(np.sqrt(squares / (count.sum() - len(observed))), np.finfo(float).tiny ** 0.25)
        found += sign * (-np.square((observed - mean) / deviation) / 2 - np.log(deviation))
    return found


def scaled(losses: Floats) -> Floats:
    """-log(e^loss - 1): of a cross-entropy -log p this is log(p / (1 - p)), which is nearly normal over the models.

    What is smaller than the rounding of a loss counts as that: a zero would be infinitely far from all others.
    """
    safe = np.maximum(losses, np.finfo(float).eps)
    found: Floats = -safe - np.log(-np.expm1(-safe))
    return found


def halves(task: Task, models: int, seed: int, unit: Unit = "record") -> Halves:
    """The units of each model: a random half of every client's records, or of the clients; then the other half."""
    if models < LEAST or models % 2:
        raise Mistake(f"shadows={models} must be even and at least {LEAST}: models come in pairs, one for each half")
    sizes = task.sizes.tolist() if unit == "record" else [task.clients]
    if unit not in ("record", "client") or min(sizes) < 2:
        raise Mistake(f"unit={unit!r} needs two of them at least, of each client two records: take record or client")
    inside = np.empty((models, sum(sizes)), bool)
    for draw in range(models // 2):
        rng = PublicSeed(seed).generator("halves", draw)
        inside[2 * draw] = np.concatenate([_half(size, rng) for size in sizes])
        inside[2 * draw + 1] = ~inside[2 * draw]
    return Halves(inside, tuple(_part(task, row, unit) for row in inside))


def trained(
    scheme: Scheme,
    task: Task,
    number: int,
    seed: int,
    secret: SecretSeed,
    transport: Transport | None = None,
    say: Say | None = None,
) -> Tensor:
    """The weights that are released after the last round."""
    transport = Simulated() if transport is None else transport
    for last in rounds(scheme, task, rounds=number, seed=seed, secret=secret, transport=transport):
        if say is not None:
            say(last.round, number)
    return last.state.released


def _counted(say: Say | None, before: int, models: int) -> Say | None:
    """Of all models together, where so many are done."""
    return None if say is None else lambda done, rounds: say(before * rounds + done, models * rounds)


def record_losses(task: Task, weights: Tensor, rows: Samples) -> Floats:
    """The loss of each row by itself, under these weights; in float64, since the small ones reveal most."""

    def each(place: slice, output: Any) -> list[float]:
        found, wanted = output.double(), rows.targets[place]
        return [float(task.loss(found[n : n + 1], wanted[n : n + 1])) for n in range(len(wanted))]

    return np.concatenate(list(passes(lambda: bound(task.model, weights), rows.inputs, each)))


def _half(size: int, rng: np.random.Generator) -> Bools:
    """Half of so many; of an odd number, one more or one less."""
    kept = (size + int(rng.integers(2))) // 2
    found: Bools = rng.permutation(size) < kept
    return found


def _part(task: Task, inside: Bools, unit: Unit) -> Task:
    """The task with these units alone."""
    split, starts = task.split, task.split.starts.tolist()
    if unit == "client":
        rows = [split.rows_of(client) for client in np.flatnonzero(inside).tolist()]
    else:
        kept = torch.from_numpy(inside)
        rows = [split.rows[first:last][kept[first:last]] for first, last in pairwise(starts)]
    part = Split.of(rows)
    return Task(task.model, task.loss, task.train, part, task.test, task.public, task.metrics, task.featured)


def _together(values: Floats, starts: npt.NDArray[np.int64] | None) -> Floats:
    """The mean over each unit's records."""
    if starts is None:
        return values
    sizes = np.diff(np.append(starts, values.shape[1]))
    found: Floats = np.add.reduceat(values, starts, axis=1) / sizes
    return found
