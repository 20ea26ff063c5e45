"""What a model must not do, and rows as it takes them: in its own precision, and integers where it wants these."""

import torch
from torch import nn
from torch.func import functional_call

from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models.traits import seeded
from hush.models.weights import precision, twin


def check(model: nn.Module) -> None:
    """Refuse layers that write to their weights in a forward pass: no gradient and no bound would know of it."""
    for place, module in model.named_modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            if module.max_norm is not None:
                raise Mistake(f"the embedding {place!r} rescales its weights in each pass: leave max_norm out")
            if module.sparse:
                raise Mistake(f"the embedding {place!r} has sparse gradients, which no update has: leave sparse out")
    if any(p.is_complex() for p in model.parameters()):
        raise Mistake("the model has complex weights, which do not travel: give real and imaginary parts apart")


def fitted(model: nn.Module, rows: Samples) -> Samples:
    """The rows with numbers in the model's precision; integers stay (tokens), unless the model cannot take them."""
    wanted, inputs, targets = precision(model), rows.inputs, rows.targets
    if isinstance(inputs, Sparse):
        if wanted is not torch.float32:
            raise Mistake(f"sparse rows are float32 and the model is {wanted}: give model.float(), or dense rows")
    elif inputs.is_floating_point() or not _takes_integers(model, rows):
        inputs = inputs.to(wanted)
    if targets.is_floating_point():  # a loss promotes its targets, but for those of fewer digits than it has
        targets = targets.to(torch.float64 if wanted is torch.float64 else torch.float32)
    return rows if inputs is rows.inputs and targets is rows.targets else Samples(inputs, targets)


def _takes_integers(model: nn.Module, rows: Samples) -> bool:
    """Whether a pass on one row goes through; where numbers do not either, the fault is elsewhere."""
    return _runs(model, rows, None) or not _runs(model, rows, precision(model))


def _runs(model: nn.Module, rows: Samples, dtype: torch.dtype | None) -> bool:
    copied = twin(model)
    buffers = {name: buffer.clone() for name, buffer in copied.named_buffers()}
    try:
        with seeded(0), torch.no_grad():
            functional_call(copied, buffers, (rows.inputs[:2].clone().to(dtype),))
    except Exception:  # in whatever way a model says so
        return False
    return True
