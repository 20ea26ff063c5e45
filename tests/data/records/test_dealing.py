"""Virtual clients: who gets which rows."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hush.data.fetch import tables
from hush.data.records import Records, deal, premier, virtual
from hush.data.records.schema import Deal
from hush.data.registry import dataset, dealing, records
from hush.data.sparse import Sparse
from hush.errors import Mistake


def quiet(line: str) -> None:
    pass


def made(rows: int, died: int, patients: np.ndarray | None = None) -> Records:
    """Records of which `died` have label 1."""
    targets = (torch.randperm(rows, generator=torch.Generator().manual_seed(0)) < died).long()
    inputs = Sparse.of(torch.ones(rows, 1))
    return Records(inputs, targets, np.full(rows, "H"), ("a",), (), (), "", (("a", 1),), patients)


@pytest.mark.parametrize("seed", range(5))
def test_each_client_has_its_rows_and_a_death(seed: int) -> None:
    whole = made(1000, 60)
    found = deal(whole, Deal(rows=15, public=37), seed=seed)
    assert len(found.test) == 200
    assert len(found.public) == 37
    assert len(np.unique(found.clients)) == (1000 - 200 - 37) // 15 or int(whole.targets[found.train].sum()) < 50
    assert (np.bincount(found.clients) == 15).all()
    deaths = np.bincount(found.clients, whole.targets.numpy()[found.train])
    assert (deaths >= 1).all()
    parts = np.concatenate([found.train, found.test, found.public])
    assert len(np.unique(parts)) == len(parts)  # nobody is in two of them


def test_the_papers_numbers() -> None:
    """5,010 hospitals of 203 patients and 356 public ones, of 1,271,733: all training rows (U, appendix A.2)."""
    found = deal(made(1_271_733, 39_988), Deal(rows=virtual.ROWS, public=virtual.PUBLIC))
    assert len(found.test) == 254_347
    assert len(found.train) == 5010 * 203
    assert (np.bincount(found.clients) == 203).all()
    assert len(found.public) == 356


def test_a_patient_stays_in_one_place() -> None:
    patients = np.random.default_rng(0).integers(400, size=1000)
    found = deal(made(1000, 150, patients), Deal(rows=20, public=30))
    places = [patients[rows] for rows in (found.train, found.test, found.public)]
    for one in range(3):
        for other in range(one):
            assert not set(places[one]) & set(places[other])
    sizes = np.bincount(found.clients)
    assert sizes.min() >= 20
    assert sizes.max() < 20 + np.bincount(patients).max()
    for patient in np.unique(places[0]):
        assert len(set(found.clients[places[0] == patient])) == 1


def test_another_seed_deals_otherwise_and_the_same_one_the_same() -> None:
    whole = made(1000, 60)
    first, again, other = (deal(whole, Deal(rows=15, public=37), seed=seed) for seed in (0, 0, 1))
    assert first.train.tolist() == again.train.tolist()
    assert first.clients.tolist() == again.clients.tolist()
    assert first.test.tolist() != other.test.tolist()


@pytest.mark.parametrize("wanted", [Deal(rows=15, clients=60), Deal(rows=900), Deal(rows=2, clients=70)])
def test_too_few_rows_are_told(wanted: Deal) -> None:
    with pytest.raises(Mistake, match="rows or clients"):
        deal(made(1000, 60), wanted)


def test_no_deaths_are_told() -> None:
    with pytest.raises(Mistake, match="0 of label 1"):
        deal(made(100, 0), Deal(rows=5))


def test_as_many_clients_as_there_are_deaths() -> None:
    found = deal(made(1000, 10), Deal(rows=5))
    assert (np.bincount(found.clients) == 5).all()
    assert len(np.unique(found.clients)) <= 10


def test_premier_virtual_shares_the_tables_of_premier_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path, _ = tables("premier-virtual:0.001", quiet)
    assert path == tmp_path / "hush" / "premier-like-0.001" / "virtual.toml"
    assert premier.ready(path.parent, 0.001)
    assert dealing(path) == Deal(rows=203, public=356)
    assert dealing(path.with_name("schema.toml")) is None
    plain, dealt = records(path.with_name("schema.toml"), quiet), records(path, quiet)
    assert dealt.inputs.width < plain.inputs.width  # codes in fewer than 100 rows are gone
    data = dataset("premier-virtual:0.001", quiet)
    assert data.public is not None
    assert len(data.public) == 356
    assert set(np.bincount(data.columns["client"])) == {203}
    assert any("356 rows of the records that [deal] makes public" in note for note in data.notes)
    assert any("synthetic" in note for note in data.notes)
