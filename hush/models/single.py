"""Whether the loss of each row by itself is that of rows together, for who takes single rows: record-level privacy."""

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from hush.data.samples import Samples
from hush.errors import Mistake, first_line
from hush.models.fit import CLOSE, HALF, spread
from hush.models.losses import ignored
from hush.models.metrics import Judged
from hush.models.traits import seeded
from hush.models.weights import precision, twin

KINDS, VALUES, ROUGH = 64, 8, 0.02  # classes and values that are tried; CLOSE in half precision


def check(problem: Judged, rows: Samples) -> None:
    """Refuse a loss whose mean over rows is not that of their losses.

    Of targets with more than one number a row, as tokens, the mean may be over those that count, and is left alone. So
    is a loss that draws.
    """
    single = rows.targets.numel() == len(rows)
    places = _each_kind(rows.targets.reshape(-1), ignored(problem.loss)) if single else torch.arange(0)
    if len(places) < 2:
        return
    try:
        whole, again, *each = _losses(problem, rows.rows(places))
    except Mistake:
        raise
    except Exception as error:
        raise Mistake(
            f"the loss fails on a single row ({first_line(error)}): each record is taken by itself; keep the first axis"
        ) from error
    mean, close = sum(each) / len(each), ROUGH if precision(problem.model) in HALF else CLOSE
    if whole == again and abs(whole - mean) > close * max(abs(mean), abs(whole)):
        raise Mistake(
            f"the loss of {len(each)} rows is {whole:.4g} and not {mean:.4g}, the mean of theirs: each record is taken"
            " by itself, so that what rows weigh or share in a batch is lost, as weights of classes are; take a mean"
            " over the rows (balance='weights' where one of two classes is rare)"
        )


def _losses(problem: Judged, few: Samples) -> list[float]:
    """The loss of all rows together, again with other draws, and of each by itself, for outputs a little apart."""
    copied, places = twin(problem.model).eval(), [torch.tensor([number]) for number in range(len(few))]

    def outputs(rows: Samples) -> object:
        state = {name: buffer.clone() for name, buffer in copied.named_buffers()}
        with seeded(0):
            return functional_call(copied, state, (rows.inputs[:].clone(),))

    def loss(output: object, rows: Samples, draw: int = 0) -> float:
        with seeded(draw):
            return float(problem.loss(output, rows.targets))

    with torch.no_grad():
        whole, alone = outputs(few), [few.rows(place) for place in places]
        if isinstance(whole, Tensor):
            whole = spread(whole)
            each = [loss(whole[place], one) for place, one in zip(places, alone, strict=True)]
        else:
            each = [loss(outputs(one), one) for one in alone]
        return [loss(whole, few), loss(whole, few, draw=1), *each]


def _each_kind(targets: Tensor, left_out: int) -> Tensor:
    """The first row of each of the first classes, or some rows with targets from the smallest to the largest."""
    if targets.is_floating_point():
        return targets.argsort()[torch.linspace(0, len(targets) - 1, min(VALUES, len(targets))).long()]
    kinds, first = np.unique(targets.numpy(), return_index=True)
    return torch.from_numpy(first[kinds != left_out][:KINDS])
