import numpy as np
import pytest
import torch

from hush.data.samples import Samples, Split, samples
from hush.errors import Mistake


def test_a_pair_of_arrays_becomes_float_inputs_and_whole_targets() -> None:
    got = samples((np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([0, 1, 2], dtype=np.int8)))
    assert len(got) == 3
    assert got.inputs.dtype == torch.float32
    assert got.targets.dtype == torch.int64
    assert got.inputs.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_integers_stay_for_embeddings() -> None:
    for kind in (torch.int32, torch.int64):
        assert samples((torch.zeros(2, 3, dtype=kind), torch.zeros(2))).inputs.dtype == kind
    double = samples((np.zeros((2, 3)), np.zeros(2)), precision=torch.float64)
    assert (double.inputs.dtype, double.targets.dtype) == (torch.float64, torch.float64)


def test_sequences_are_filled_up_or_cut() -> None:
    words, classes = [[5, 6, 7], [8], torch.tensor([9, 9])], [1, 0, 1]
    got = samples((words, classes), pad=0)
    assert got.inputs.tolist() == [[5, 6, 7], [8, 0, 0], [9, 9, 0]]
    assert got.targets.tolist() == classes
    got = samples((words, words), pad=0, length=2)
    assert got.inputs.tolist() == [[5, 6], [8, 0], [9, 9]]
    assert got.targets.tolist() == [[5, 6], [8, -100], [9, 9]]
    points = [torch.ones(2, 3), torch.ones(1, 3), torch.ones(0, 3)]
    got = samples(Pairs(points, classes), pad=-1.0, length=2)
    assert got.inputs.shape == (3, 2, 3)
    assert got.inputs[:, :, 0].tolist() == [[1, 1], [1, -1], [-1, -1]]


class Pairs(torch.utils.data.Dataset):
    def __init__(self, inputs: list, targets: list) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, place: int) -> tuple[object, object]:
        return self.inputs[place], self.targets[place]


@pytest.mark.parametrize(
    ("data", "given", "words"),
    [
        (([[1], [2, 3]], [0, 1]), {}, r"rows of different lengths need hush.samples\(data, pad=0\)"),
        (([[1], [2, 3]], [0, 1]), {"length": 2}, "length=2 is for sequences that are filled up: give pad, too"),
        (([[1], [2, 3]], [0, 1]), {"pad": 0, "length": 0}, "length=0 must be at least 1"),
        (([[1], [2, 3]], [0, 1]), {"pad": 0.5}, "pad=0.5 is no integer"),
        (([[1], [2.5, 3.0]], [0, 1]), {"pad": 0}, "differ in more than their length"),
        (([[], []], [0, 1]), {"pad": 0}, "no rows with a step"),
        (([1, 2], [0, 1]), {"pad": 0}, "a row is a single number"),
        (([["a"], ["b", "c"]], [0, 1]), {"pad": 0}, "a sequence cannot become a tensor"),
        (([[1], [2, 3]], [[0.5], [0.5, 0.5]]), {"pad": 0}, "no number to ignore: give classes, or a mask"),
    ],
)
def test_sequences_that_are_none(data: object, given: dict, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        samples(data, **given)


def test_float_targets_stay_numbers() -> None:
    assert samples((torch.zeros(2, 3), torch.tensor([0.5, 1.5], dtype=torch.float64))).targets.dtype == torch.float32


def test_a_dataset_equals_its_tensors() -> None:
    x, y = torch.rand(5, 1, 2, 2), torch.arange(5)
    got = samples(torch.utils.data.TensorDataset(x, y))
    assert torch.equal(got.inputs, x)
    assert torch.equal(got.targets, y)


def test_rows_are_taken_in_order() -> None:
    got = Samples(torch.arange(4.0)[:, None], torch.arange(4)).rows(torch.tensor([2, 0]))
    assert got.targets.tolist() == [2, 0]
    assert got.inputs.tolist() == [[2.0], [0.0]]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield 0, 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((torch.zeros(3, 2), torch.zeros(2)), "3 rows and targets 2"),
        ((torch.zeros(()), torch.zeros(())), "first axis"),
        ("fashion-mnist", "type str"),
        (Stream(), "no length"),
        (torch.utils.data.TensorDataset(torch.zeros(2, 1)), "pairs"),
        (torch.utils.data.TensorDataset(torch.zeros(0, 1), torch.zeros(0)), "empty"),
        ((["a", "b"], [0, 1]), "inputs cannot become a tensor"),
    ],
)
def test_data_that_is_no_data(data: object, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        samples(data)


def test_a_split_gives_each_client_its_rows() -> None:
    split = Split.of([[3, 1], np.array([0]), torch.tensor([5, 4, 2])])
    assert len(split) == 3
    assert split.sizes.tolist() == [2, 1, 3]
    assert [split.rows_of(k).tolist() for k in range(3)] == [[3, 1], [0], [5, 4, 2]]
    split.check(6)
    with pytest.raises(Mistake, match="row 5, but the data has 5 rows"):
        split.check(5)
    with pytest.raises(Mistake, match="client 3"):
        split.rows_of(3)
    with pytest.raises(Mistake, match="client -1"):
        split.rows_of(-1)


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ([[0], []], "client 1 has no rows"),
        ([[0, 1], [1]], "row 1 is held twice"),
        ([[2, 2]], "row 2 is held twice"),
        ([[-1]], "negative"),
        ([], "at least one client"),
    ],
)
def test_a_split_that_is_none(clients: list[list[int]], words: str) -> None:
    with pytest.raises(Mistake, match=words):
        Split.of(clients)


def test_starts_must_cover_the_rows() -> None:
    with pytest.raises(Mistake, match="starts"):
        Split(torch.arange(4), torch.tensor([0, 2]))
    with pytest.raises(Mistake, match="client 1 has no rows"):
        Split(torch.arange(4), torch.tensor([0, 3, 2, 4]))


def test_rows_are_shared_only_where_that_is_said():
    rows, starts = torch.arange(40) % 10, torch.arange(0, 41, 2)
    with pytest.raises(Mistake, match=r"row 0 is held twice.*shared=True"):
        Split(rows, starts)
    split = Split(rows, starts, shared=True)
    assert len(split) == 20
    assert split.rows_of(19).tolist() == [8, 9]
    assert split.sizes_of(np.array([3, 19])).tolist() == [2, 2]
    assert split.sizes is split.sizes


def test_a_row_number_far_beyond_the_others_is_no_reason_for_a_large_table():
    assert len(Split.of([[10**15], [3]])) == 2
    with pytest.raises(Mistake, match="row 1000000000000000 is held twice"):
        Split.of([[10**15], [3], [10**15]])
