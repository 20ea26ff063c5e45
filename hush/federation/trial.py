"""A client's whole path once, on two rows: training, clipping and all stages, before anything is charged."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hush.core.engine import Engine
from hush.core.memory import Kept, Memory
from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.sums import addable, summed
from hush.core.task import Block, Population, Problem
from hush.data.samples import Split
from hush.errors import Mistake, first_line
from hush.models.weights import flatten
from hush.parts.trainers.cohort import choose
from hush.random.draws import Draws
from hush.random.seeds import PublicSeed, SecretSeed


def walk(scheme: Scheme, problem: Problem, held: Population, clients: int, engine: Engine) -> None:
    """Refuse, in a sentence, a model that these parts cannot train, of rows like these.

    Its draws are those of a seed of its own, and what comes out is dropped: no draw of a run is made, and nothing that
    a run keeps is changed.
    """
    if engine.kind is None:  # as the first round would choose; two rows are no measure for it
        engine = replace(engine, kind=choose(problem, held) if scheme.trainer.level is None else "vmap")
    few = held.data.rows(held.split.rows_of(0)[:2])
    own = Population(few, Split.of([range(len(few))]))
    live, pool = _live(scheme, problem)
    width = scheme.coordinates.count(problem.layout)
    plan = Plan(
        round=1,
        weights=flatten(problem.model),
        live=live,
        cohort=scheme.sampling.cohort(clients),
        floor=max(1.0, scheme.sampling.cohort(clients)),
        clip=scheme.specs(width)[-1].clip,
        seats=np.zeros(1, np.int64) if scheme.seated else None,
        spare=scheme.spare,
        pool=pool,
        joint=scheme.joint,
    )
    block = Block(problem, own, np.zeros(1, np.int64), Draws(SecretSeed.simulated(0), (0,)), Kept(Memory(), (0,)))
    try:
        scheme.client(block, plan, engine)
        if addable(scheme) is not None:
            summed(scheme, block, plan, engine)
    except Mistake:
        raise
    except Exception as error:
        raise _failed(error) from error


def _live(scheme: Scheme, problem: Problem) -> tuple[Tensor | None, Tensor | None]:
    """As many coordinates as the scheme has, by two public rows where public rows choose them, and their pool."""
    coordinates, public = scheme.coordinates, problem.public
    if coordinates.whole:
        return None, None
    if not coordinates.derivable:  # clients vote
        return torch.arange(coordinates.count(problem.layout)), None
    few = None if public is None else public.rows(torch.arange(min(2, len(public))))
    try:
        tried, seed = replace(problem, public=few), PublicSeed(0)
        live = coordinates.draw(tried, seed, 0 if coordinates.fixed else 1, None)
        return live, coordinates.pool(tried, seed)
    except Mistake:
        raise
    except Exception as error:
        raise _failed(error) from error


def _failed(error: Exception) -> Mistake:
    return Mistake(
        f"the scheme's parts and the model do not fit ({first_line(error)}): write its forward in operations of torch"
        " that do not branch on values"
    )
