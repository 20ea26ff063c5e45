import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.data.partition import _proportions, column, dirichlet, iid, shards
from hush.data.samples import Split
from hush.errors import Mistake

LABELS = torch.arange(600) % 10


def whole(split: Split, count: int) -> bool:
    return split.rows.sort().values.tolist() == list(range(count))


def kinds(split: Split, labels: torch.Tensor) -> list[int]:
    return [len(labels[split.rows_of(k)].unique()) for k in range(len(split))]


@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 2**40))
def test_iid_uses_every_row_once_in_nearly_equal_parts(count: int, clients: int, seed: int) -> None:
    if clients > count:
        with pytest.raises(Mistake, match=f"clients={clients} exceeds the {count} rows"):
            iid(count, clients, seed)
        return
    split = iid(count, clients, seed)
    assert len(split) == clients
    assert whole(split, count)
    assert int(split.sizes.max() - split.sizes.min()) <= 1


def test_the_papers_clients_have_ten_images_each() -> None:
    split = iid(60_000, 6_000, 0, size=10)
    assert len(split) == 6_000
    assert split.sizes.unique().tolist() == [10]
    assert whole(split, 60_000)


def test_a_size_leaves_rows_over() -> None:
    split = iid(25, 2, 3, size=10)
    assert split.sizes.tolist() == [10, 10]
    assert len(split.rows.unique()) == 20
    assert torch.equal(split.rows, iid(25, 2, 3, size=10).rows)
    assert not torch.equal(split.rows, iid(25, 2, 4, size=10).rows)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 4), min_size=12, max_size=80), st.integers(1, 4), st.integers(1, 3))
def test_shards_use_every_row_once(labels: list[int], clients: int, per_client: int) -> None:
    split = shards(torch.tensor(labels), clients, 0, per_client)
    assert len(split) == clients
    assert whole(split, len(labels))
    assert int(split.sizes.max() - split.sizes.min()) <= per_client


def test_two_shards_show_at_most_two_labels() -> None:
    # 100 shards of 6 rows fall exactly within the labels of 60 rows each
    split = shards(LABELS, 50, 1)
    assert max(kinds(split, LABELS)) == 2
    assert split.sizes.unique().tolist() == [12]
    assert not torch.equal(split.rows, shards(LABELS, 50, 2).rows)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 3), min_size=20, max_size=60),
    st.integers(1, 20),
    st.sampled_from([1e-4, 0.01, 0.5, 1.0, 100.0, 1e6]),
    st.integers(0, 1000),
)
def test_dirichlet_uses_every_row_once_and_leaves_no_client_empty(
    labels: list[int], clients: int, alpha: float, seed: int
) -> None:
    split = dirichlet(torch.tensor(labels), clients, alpha, seed)
    assert len(split) == clients
    assert whole(split, len(labels))


def test_alpha_sets_the_skew() -> None:
    few = dirichlet(LABELS, 10, 0.01, 0)
    many = dirichlet(LABELS, 10, 1e6, 0)
    assert np.mean(kinds(few, LABELS)) < 3
    assert kinds(many, LABELS) == [10] * 10
    assert many.sizes.tolist() == [60] * 10
    assert not torch.equal(few.rows, dirichlet(LABELS, 10, 0.01, 1).rows)


def test_rare_labels_are_dealt_by_themselves() -> None:
    labels = torch.tensor([1] * 90 + [0] * 10)
    split = dirichlet(labels, 10, 1e9, 0)
    assert [int(labels[split.rows_of(k)].sum()) for k in range(10)] == [9] * 10


@pytest.mark.parametrize("alpha", [0.05, 1.0, 7.0])
def test_proportions_have_the_moments_of_the_dirichlet(alpha: float) -> None:
    n, draws = 4, 4000
    generator = torch.Generator().manual_seed(1)
    p = torch.stack([_proportions(alpha, n, generator) for _ in range(draws)])
    variance = (1 / n) * (1 - 1 / n) / (n * alpha + 1)
    assert torch.allclose(p.sum(1), torch.ones(draws, dtype=torch.float64))
    assert torch.allclose(p.mean(0), torch.full((n,), 1 / n, dtype=torch.float64), atol=5 * math.sqrt(variance / draws))
    assert p.var(0).mean() == pytest.approx(variance, rel=0.08)


def test_a_column_gives_one_client_per_value_in_sorted_order() -> None:
    split = column(np.array(["york", "bath", "york", "leeds", "bath"]))
    assert [split.rows_of(k).tolist() for k in range(len(split))] == [[1, 4], [3], [0, 2]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: iid(10, 0, 0), "clients=0"),
        (lambda: iid(10, 3, 0, size=4), "3 clients of 4 rows need 12"),
        (lambda: iid(10, 3, 0, size=0), "size=0"),
        (lambda: shards(LABELS, 601, 0), "clients=601"),
        (lambda: shards(LABELS, 301, 0), "602 rows"),
        (lambda: shards(LABELS, 3, 0, per_client=0), "per_client=0"),
        (lambda: shards(LABELS.reshape(2, 300), 3, 0), "shape"),
        (lambda: dirichlet(LABELS, 3, 0.0, 0), "alpha=0"),
        (lambda: dirichlet(LABELS, 3, -1.0, 0), "alpha=-1"),
        (lambda: dirichlet(LABELS, 3, math.nan, 0), "alpha=nan"),
        (lambda: dirichlet(LABELS, 601, 1.0, 0), "clients=601"),
        (lambda: column(np.zeros((2, 2))), "shape"),
        (lambda: column(np.array([1.0, np.nan])), "NaN"),
        (lambda: column(np.array([])), "shape"),
    ],
)
def test_bad_arguments(call, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        call()
