"""The sum of what a cohort sends, where nobody asks for more: docs/design.md says which path a simulation takes."""

import torch
from torch import Tensor

from hush.core.engine import Engine
from hush.core.scheme import Scheme
from hush.core.spec import ClientContext, Plan
from hush.core.task import Block
from hush.core.updates import Rows
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed


def addable(scheme: Scheme) -> int | None:
    """How many stages need single rows, where a sum of the rows behind them is all that the others and the aggregator
    ask for; None where they ask for more.
    """
    if scheme.standalone or not (scheme.aggregator.adds or scheme.aggregator.exact):
        return None
    rest = reversed(list(enumerate(scheme.stages, 1)))
    return next((number for number, stage in rest if not stage.additive), 0)


def compact(scheme: Scheme, block: Block, plan: Plan, engine: Engine = Engine()) -> int | None:
    """How many clients `summed` best adds up at a time, where none needs a row of its own; None: each does."""
    if not all(stage.scales for stage in scheme.stages[: addable(scheme)]):
        return None
    return scheme.trainer.compact(block, plan, engine)


def summed(scheme: Scheme, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
    """The sum of what a block of clients has behind the stages that need single rows, as one row."""
    found = scheme.trainer.updates(block, plan, engine)
    for stage, spec in zip(scheme.stages[: addable(scheme)], scheme.specs(scheme.width(plan), plan.clip), strict=False):
        ctx = ClientContext(spec, plan, block.sizes, block.draws, block.memory)
        scaled = found.scaled(stage.factors(found.norms(), ctx)) if stage.scales else None
        found = scaled or Rows(stage.encode(found.rows(), ctx))
    return found.sum().unsqueeze(0)


def together(scheme: Scheme, plan: Plan, clients: int, secret: SecretSeed) -> Tensor:
    """What the other stages of so many clients add to that sum in all, as one row."""
    specs = scheme.specs(scheme.width(plan), plan.clip)
    x, none = torch.zeros(1, specs[-1].size), torch.empty(0)
    for stage, spec in list(zip(scheme.stages, specs, strict=False))[addable(scheme) :]:
        x = stage.together(x, ClientContext(spec, plan, none, Draws(secret, (0,))), clients)
    return x
