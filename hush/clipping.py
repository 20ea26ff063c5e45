"""The papers' rule for the clipping bound, on public data."""

from dataclasses import replace

import numpy as np
import torch

from hush.catalogue import Entry
from hush.data.samples import Split
from hush.errors import Mistake
from hush.knobs import Knobs
from hush.rng import PublicSeed, SecretSeed
from hush.spec import Context, Plan, Spec
from hush.stages import Sense
from hush.task import Task
from hush.weights import flatten

SETS = 100


def public_bound(entry: Entry, knobs: Knobs, task: Task, seed: PublicSeed) -> float:
    """S: the L2 norm of what one local training on the public batch would send (U section 4).

    Where the set of coordinates is fresh each round: the median over 100 random sets.
    """
    if task.public is None:
        raise Mistake("clip='public' needs a public batch: name one, or give a number or 'adaptive'")
    scheme = entry.build(replace(knobs, vote=None))
    everyone = torch.arange(len(task.public))
    public = replace(task, train=task.public, split=Split.of([everyone]))
    weights, client, nobody = flatten(task.model), np.zeros(1, np.int64), SecretSeed.simulated(seed.value)
    norms = []
    for draw in range(1 if scheme.coordinates.fixed else SETS):
        live = scheme.coordinates.draw(public, seed, -1 - draw, None)
        update = scheme.trainer.fit(public, weights, live, client, nobody, -1 - draw)
        for stage in scheme.stages:
            if isinstance(stage, Sense):  # the one stage in front of a clip
                plan = Plan(1, weights, live, 1.0, 1.0)
                update = stage.encode(update, Context(Spec(update.shape[1]), plan, client, torch.ones(1), nobody))
        norms.append(float(torch.linalg.vector_norm(update.double())))
    bound = float(np.median(norms))
    if not 0 < bound < float("inf"):
        raise Mistake(f"clip='public' gave {bound} on the public batch: lower the training rate or give a number")
    return bound
