import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hush.data import store
from hush.data.fetch import fetch, ready, tables
from hush.data.known import PREMIER, known
from hush.data.records import build, premier, read_schema, synthetic
from hush.data.registry import dataset
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.random.seeds import PublicSeed


def quiet(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def world() -> synthetic.World:
    return synthetic.world(0)


@pytest.fixture(scope="module")
def drawn(world: synthetic.World) -> synthetic.Patients:
    hospital = np.arange(20_000) % synthetic.HOSPITALS
    return synthetic.patients(world, hospital, np.zeros(20_000, bool), PublicSeed(0).generator("test"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schema of a thousandth of the set."""
    return premier.generate(tmp_path_factory.mktemp("made") / "small", 0.001, say=quiet)


def area(died: np.ndarray, score: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks = rankdata(score)
    ones = int(died.sum())
    return float((ranks[died == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(died) - ones)))


def test_the_full_size_has_the_hospitals_of_the_papers() -> None:
    sizes, least = premier.hospitals()
    assert (len(sizes), int(sizes.sum()), least) == (415, 1_271_733, 1000)
    large = sizes[sizes >= least]
    assert (len(large), int(large.sum())) == (314, 1_222_554)
    train = large - np.floor(large * 0.2 + 0.5)  # the rows that `split` leaves
    assert (train.min(), train.max(), round(train.mean())) == (804, 12_447, 3_115)
    assert train.std() == pytest.approx(1_913.39, abs=1)
    assert abs(train.sum() - 977_927) < 314  # a row for each hospital, by rounding


@pytest.mark.parametrize("part", [0.001, 0.0123, 0.02, 0.1, 0.37, 0.99])
def test_a_smaller_size_keeps_the_shape(part: float) -> None:
    sizes, least = premier.hospitals(part)
    kept = sizes[sizes >= least]
    assert sizes.sum() == pytest.approx(1_271_733 * part, abs=1)
    assert len(sizes) == max(10, round(415 * part))
    assert len(kept) == round(len(sizes) * 314 / 415)
    assert kept.sum() == pytest.approx(1_222_554 * part, abs=1)
    assert sizes.min() > 0


def test_every_rule_has_rows_to_drop_and_the_width_is_exact(small: Path) -> None:
    found = build(read_schema(small))
    assert found.inputs.shape == (1223, 24_428)
    assert len(set(found.clients)) == 8
    dropped = {rule.name: rule.dropped for rule in found.counts if rule.of == "rows"}
    assert set(dropped) == {"min_age", "exclude admission_type", "exclude group", "min_days", "min_rows_per_client"}
    assert min(dropped.values()) > 0
    assert sum(rule.dropped for rule in found.counts if rule.of == "rows") == 1310 - 1223
    assert [name for name, _ in found.groups] == ["age", "mrci", "gender", "admission_type", "codes"]
    assert [line for line in found.fitted if not line.startswith("clients")] == []


def test_rows_of_the_codes_are_sorted_and_single(small: Path) -> None:
    codes = pl.read_parquet(small.parent / "codes" / "*.parquet")
    assert codes.is_unique().all()
    assert codes.equals(codes.sort("admission", "day", "code"))
    stay = pl.read_parquet(small.parent / "admissions.parquet").select("admission", "days")
    joined = codes.join(stay, on="admission", how="left")
    assert joined["days"].null_count() == 0
    assert ((joined["day"] >= 1) & (joined["day"] <= joined["days"])).all()
    assert 0.04 < (joined["day"] > 1).mean() < 0.12


def test_patients_look_like_the_papers(drawn: synthetic.Patients) -> None:
    died = drawn.columns["died"]
    assert died.mean() == pytest.approx(0.0315, abs=0.005)
    assert died.mean() == pytest.approx(drawn.risk.mean(), abs=0.005)
    today = drawn.day == 1
    assert today.sum() / len(died) == pytest.approx(30, abs=1.5)
    assert drawn.columns["age"].min() >= 15
    assert drawn.columns["age"].max() <= 89
    assert drawn.columns["mrci"].min() >= 2
    assert drawn.columns["mrci"].max() <= 60
    counts = np.sort(np.bincount(drawn.code[today], minlength=synthetic.CODES))[::-1]
    assert 0.15 < counts[0] / len(died) < 0.5
    assert counts[:1000].sum() > 0.75 * counts.sum()  # few codes are most of what is given
    assert (counts > 0).sum() > 10_000  # and very many are rare


def test_the_risk_is_in_the_codes_more_than_in_the_age(drawn: synthetic.Patients, world: synthetic.World) -> None:
    died, today = drawn.columns["died"], drawn.day == 1
    own = np.bincount(drawn.place[today], world.code_risk[drawn.code[today]], minlength=len(died))
    assert 0.84 < area(died, drawn.risk) < 0.89
    assert 0.55 < area(died, drawn.columns["age"]) < 0.63
    assert area(died, own) > 0.75


def test_hospitals_differ(world: synthetic.World) -> None:
    mixes = [np.bincount(world.diseases[k], minlength=synthetic.DISEASES) / world.diseases.shape[1] for k in range(9)]
    apart = [np.abs(mixes[0] - mix).sum() / 2 for mix in mixes[1:]]
    assert min(apart) > 0.1


def test_those_that_rules_drop_break_a_rule(world: synthetic.World) -> None:
    found = synthetic.patients(world, np.zeros(500, int), np.ones(500, bool), PublicSeed(0).generator("test"))
    of = found.columns
    broken = [of["admission"] == 4, of["days"] < 3, of["group"] > 0, of["age"] < 15]
    assert np.any(broken, axis=0).all()
    assert all(rule.any() for rule in broken)


def test_the_same_seed_gives_the_same_bytes_in_chunks(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = premier.generate(tmp_path / "again", 0.001, say=quiet)
    other = premier.generate(tmp_path / "other", 0.001, seed=1, say=quiet)
    for name in ("admissions.parquet", "codes/part-00000.parquet"):
        one, two, three = ((schema.parent / name).read_bytes() for schema in (small, again, other))
        assert one == two
        assert one != three
    monkeypatch.setattr(premier, "CHUNK", 500)
    lines: list[str] = []
    pieces = premier.generate(tmp_path / "pieces", 0.001, say=lines.append)
    assert len(list((pieces.parent / "codes").iterdir())) == 3
    assert [line.split()[1] for line in lines] == ["500", "1,000", "1,310"]
    assert build(read_schema(pieces)).inputs.shape == (1223, 24_428)


def test_it_is_made_once_and_made_anew_when_it_is_another_set(small: Path, tmp_path: Path) -> None:
    schema = shutil.copytree(small.parent, tmp_path / "set") / "schema.toml"
    lines: list[str] = []
    assert premier.generate(tmp_path / "set", 0.001, say=lines.append) == schema
    assert lines == []
    schema.write_text(schema.read_text().replace("generator", "older generator"))
    (tmp_path / "set" / "admissions.parquet").write_bytes(b"old")
    premier.generate(tmp_path / "set", 0.001, say=lines.append)
    assert len(lines) == 1
    assert schema.read_text() == small.read_text()
    assert (tmp_path / "set" / "admissions.parquet").read_bytes() == (small.parent / "admissions.parquet").read_bytes()
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == sorted(p.name for p in small.parent.iterdir())
    assert not list(tmp_path.glob(".set*"))


def test_a_broken_off_generation_leaves_nothing(tmp_path: Path) -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        premier.generate(tmp_path / "in" / "set", 0.001, say=stop)
    assert list((tmp_path / "in").iterdir()) == []
    killed, young = tmp_path / "in" / ".set.1.part", tmp_path / "in" / ".set.2.part"
    killed.mkdir()
    young.mkdir()
    os.utime(killed, (0, 0))
    premier.generate(tmp_path / "in" / "set", 0.001, say=quiet)
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == [".set.2.part", "set"]


def test_a_share_is_part_of_the_name() -> None:
    assert known("premier-like:1") is PREMIER
    assert known("premier-like:0.010").name == "premier-like:0.01"
    assert known("premier-like:0.01").folder == "premier-like-0.01"
    for wrong in ("2", "0", "-1", "nan", "much", "0.0001", ""):
        with pytest.raises(Mistake, match=r"must be a share from 0.001 to 1.*try premier-like:0.01"):
            known(f"premier-like:{wrong}")


def test_it_is_fetched_into_the_cache(tmp_path: Path) -> None:
    wanted = known("premier-like:0.001")
    assert not ready(wanted)
    lines: list[str] = []
    got = fetch("premier-like:0.001", say=lines.append)
    assert got.folder == store.cache() / "premier-like-0.001"
    assert "seed" in got.source
    assert all("synthetic" in line for line in lines)
    assert lines
    assert ready(wanted)
    schema, _ = tables("premier-like:0.001", say=pytest.fail)
    assert schema == got.folder / "schema.toml"
    with pytest.raises(Mistake, match="leave --path out"):
        fetch("premier-like:0.001", tmp_path)


def test_it_loads_by_its_name() -> None:
    data = dataset("premier-like:0.001", quiet)
    assert isinstance(data.train.inputs, Sparse)
    assert (len(data.train) + len(data.test), data.train.inputs.width) == (1223, 24_428)
    assert data.split == "client"
    assert len(set(data.columns["client"])) == 8
    assert data.notes[0] == PREMIER.notes[0]
    again = dataset("premier-like:0.001", quiet, seed=1)
    assert len(again.train) == len(data.train)
    assert not np.array_equal(again.train.inputs.starts, data.train.inputs.starts)  # other rows are held out


def test_a_cache_that_cannot_be_written_is_a_mistake() -> None:
    store.cache().parent.mkdir(parents=True)
    store.cache().write_bytes(b"a file where the folder should be")
    with pytest.raises(Mistake, match=r"premier-like:0.001 cannot be written to"):
        fetch("premier-like:0.001", say=quiet)


def test_it_says_that_it_is_synthetic(small: Path) -> None:
    assert "SYNTHETIC" in PREMIER.about
    assert "synthetic" in PREMIER.notes[0]
    assert "SYNTHETIC" in small.read_text()
