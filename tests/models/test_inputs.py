import pytest
import torch
import torch.nn.functional as F
from models.cases import Frozen
from torch import nn

from hush.core.task import Problem, Task
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models.inputs import fitted
from hush.models.metrics import evaluate
from hush.models.weights import bound, flatten, load

SPLIT = [[0, 1], [2, 3]]
INTEGERS, CLASSES = torch.arange(12).view(4, 3), torch.tensor([0, 1, 1, 0])


def test_integers_are_tokens_or_numbers_as_the_model_takes_them() -> None:
    tokens = nn.Sequential(nn.Embedding(12, 2), nn.Flatten(), nn.Linear(6, 2))
    numbers = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = numbers[1].num_batches_tracked.clone()
    assert Task(tokens, F.cross_entropy, (INTEGERS, CLASSES), SPLIT).train.inputs.dtype == torch.int64
    task = Task(numbers, F.cross_entropy, (INTEGERS, CLASSES), SPLIT, (INTEGERS, CLASSES))
    assert task.train.inputs.dtype == task.problem.test.inputs.dtype == torch.float32
    assert torch.equal(numbers[1].num_batches_tracked, before)  # looking changes nothing


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.float16])
def test_rows_come_in_the_precision_of_the_model(kind: torch.dtype) -> None:
    exact = torch.rand(4, 3, dtype=torch.float64)
    model = nn.Linear(3, 1).to(kind)
    task = Task(model, F.mse_loss, (exact, exact[:, :1]), SPLIT)
    assert task.train.inputs.dtype == kind
    assert torch.equal(task.train.inputs, exact.to(kind))
    assert task.train.targets.dtype == (torch.float64 if kind is torch.float64 else torch.float32)
    rows = Samples(exact.float(), exact[:, :1].float())
    assert fitted(nn.Linear(3, 1), rows) is rows  # nothing to do, nothing copied
    weights = flatten(model)
    assert weights.dtype == torch.float32
    assert evaluate(task, weights, rows).loss > 0
    assert next(bound(model, weights).parameters()).dtype == kind
    other = nn.Linear(3, 1).to(kind)
    load(other, weights)
    assert torch.equal(flatten(other), weights)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Sequential(nn.Embedding(9, 2, max_norm=1.0), nn.Linear(2, 2)), "embedding '0' rescales its weights"),
        (nn.Sequential(nn.EmbeddingBag(9, 2, sparse=True), nn.Linear(2, 2)), "embedding '0' has sparse gradients"),
        (nn.Linear(3, 2, dtype=torch.complex64), "complex weights, which do not travel"),
    ],
)
def test_weights_that_no_bound_would_know_of(model: nn.Module, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        Problem(model, F.cross_entropy)


def test_sparse_rows_are_of_one_precision() -> None:
    rows = Samples(Sparse.of(torch.eye(4)), CLASSES)
    with pytest.raises(Mistake, match=r"sparse rows are float32 and the model is torch.float64: give model.float\(\)"):
        Task(nn.Linear(4, 2).double(), F.cross_entropy, rows, SPLIT)


def test_a_frozen_part_may_have_another_precision() -> None:
    class Mixed(Frozen):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x.bfloat16()).float())

    model = Mixed()
    model.body.bfloat16()
    task = Task(model, F.cross_entropy, (torch.rand(4, 8), CLASSES), SPLIT, (torch.rand(4, 8), CLASSES))
    assert evaluate(task, flatten(model)).loss > 0
