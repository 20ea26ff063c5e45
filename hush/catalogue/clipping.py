"""The papers' clipping bounds: their tables, and their rule on public data."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hush.catalogue.entries import ALIASES, Entry
from hush.catalogue.values import Settings
from hush.core.engine import Engine
from hush.core.protocols import Stage
from hush.core.scheme import Scheme
from hush.core.spec import ClientContext, Lengths, Plan, Spec
from hush.core.task import Block, Registered, Task
from hush.data.samples import Split
from hush.errors import Mistake
from hush.models.weights import flatten
from hush.random.seeds import PublicSeed, SecretSeed

# The first paper's clipping bounds S: by data set, scheme and compression ratio (Tables 6 and 7; supplement, 4 and 5).
# Those of its medical data, which are not public, serve the sets that stand in for them.
_R = (0.001, 0.005, 0.01, 0.05, 0.1)
_SMALLER = (0.0001, 0.0005, *_R)
_MEDICAL = {
    "fl-basic-dp": dict(zip(_SMALLER, (0.01, 0.03, 0.05, 0.11, 0.16, 0.34, 0.46), strict=True)),
    "fl-bas-2-dp": dict(zip(_SMALLER, (0.01, 0.03, 0.04, 0.09, 0.14, 0.31, 0.44), strict=True)),
    "fl-bas-3-dp": dict(zip(_SMALLER, (0.01, 0.04, 0.06, 0.12, 0.18, 0.35, 0.49), strict=True)),
    "fl-bas-4-dp": dict(zip(_SMALLER, (0.02, 0.03, 0.05, 0.12, 0.15, 0.31, 0.44), strict=True)),
    "fl-cs-dp": dict(zip(_SMALLER, (0.002, 0.005, 0.006, 0.01, 0.02, 0.04, 0.06), strict=True)),
    "fl-top-bis-dp": dict(zip(_SMALLER, (0.60, 0.73, 0.81, 1.03, 1.13, 1.31, 1.32), strict=True)),
    "fl-top-dp": dict(zip(_SMALLER, (0.23, 0.46, 0.59, 1.03, 1.18, 1.31, 1.32), strict=True)),
    "fl-std-dp": {1.0: 1.40},
}
PAPER_CLIP: dict[str, dict[str, dict[float, float]]] = {
    "fashion-mnist": {
        "fl-basic-dp": dict(zip(_R, (0.05, 0.12, 0.16, 0.34, 0.45), strict=True)),
        "fl-bas-2-dp": dict(zip(_R, (0.07, 0.16, 0.23, 0.52, 0.75), strict=True)),
        "fl-bas-3-dp": dict(zip(_R, (0.05, 0.11, 0.16, 0.33, 0.44), strict=True)),
        "fl-bas-4-dp": dict(zip(_R, (0.06, 0.15, 0.21, 0.51, 0.74), strict=True)),
        "fl-cs-dp": dict(zip(_R, (0.21, 0.26, 0.32, 0.57, 0.79), strict=True)),
        "fl-top-bis-dp": dict(zip(_R, (1.25, 1.59, 1.79, 2.18, 2.34), strict=True)),
        "fl-top-dp": dict(zip(_R, (0.50, 0.61, 0.64, 0.87, 1.0), strict=True)),
        "fl-std-dp": {1.0: 2.40},
    },
    "premier-virtual": _MEDICAL,
    "diabetes130-virtual": _MEDICAL,
}
SETS = 100


def public_bound(found: Entry, settings: Settings, task: Registered, seed: PublicSeed) -> float:
    """S: the L2 norm of what one local training on the public batch would send (U section 4).

    Where the set of coordinates is fresh each round: the median over 100 random sets.
    """
    batch = task.problem.public
    if batch is None:
        raise Mistake("clip='public' needs a public batch: name one, or give a number or 'adaptive'")
    scheme = found.build(replace(settings, vote=None))
    public = Task(task.model, task.loss, batch, Split.of([torch.arange(len(batch))]), public=batch)
    weights = flatten(task.model)
    block = public.block(np.zeros(1, np.int64), SecretSeed.simulated(seed.value))
    norms = []
    for draw in range(1 if scheme.coordinates.fixed else SETS):
        live = scheme.coordinates.draw(public.problem, seed, -1 - draw, None)
        pool = scheme.coordinates.pool(public.problem, seed)
        update, _, _ = _bounded(scheme, block, Plan(-1 - draw, weights, live, pool=pool, joint=scheme.joint))
        norms.append(float(torch.linalg.vector_norm(update.double())))
    bound = float(np.median(norms))
    if not 0 < bound < float("inf"):
        raise Mistake(f"clip='public' gave {bound} on the public batch: lower the training rate or give a number")
    return bound


def lengths(scheme: Scheme, block: Block, plan: Plan, engine: Engine = Engine()) -> Lengths | None:
    """What the scheme's clip meets when these clients train by this plan; None where it has none."""
    if not any("clip" in stage.settings for stage in scheme.stages):
        return scheme.trainer.lengths(block, plan)
    update, stage, after = _bounded(scheme, block, plan, engine)
    if stage is None or after is None or "clip" not in stage.settings:
        return None
    bound = after.l2 if after.clip is None else after.clip  # an adaptive one sends a number more
    return Lengths(torch.linalg.vector_norm(update.double(), dim=1), bound)


def _bounded(
    scheme: Scheme, block: Block, plan: Plan, engine: Engine = Engine()
) -> tuple[Tensor, Stage | None, Spec | None]:
    """Updates in front of the stage that bounds them, that stage, and what it promises; None where none does."""
    update = scheme.trainer.fit(block, plan, engine)
    for stage, after in zip(scheme.stages, scheme.specs(update.shape[1], plan.clip)[1:], strict=True):
        if after.l2 < float("inf"):  # what it bounds is what is measured
            return update, stage, after
        context = ClientContext(Spec(update.shape[1]), replace(plan, round=1), block.sizes, block.draws, block.memory)
        update = stage.encode(update, context)
    return update, None, None


def paper_clip(name: str, data: str, ratio: float) -> float:
    """The bound S that the paper used for this scheme, data set and ratio."""
    table = PAPER_CLIP.get(data.partition(":")[0], {}).get(ALIASES.get(name, name), {})
    if 1.0 in table:
        return table[1.0]
    if ratio not in table:
        known = ", ".join(f"{r:g}" for r in table) or "none"
        raise Mistake(
            f"clip='paper' has no value for {name} on {data} at ratio {ratio:g} (known: {known}):"
            " give a number, 'public' or 'adaptive'"
        )
    return table[ratio]
