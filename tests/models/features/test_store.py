"""Features on disk: made once, and never taken from a file that is not whole."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from hush.models.features.store import digest, kept, place


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tmp_path in place().parents
    return place()


class Maker:
    """Makes a tensor and counts how often."""

    def __init__(self, value: float = 1.5) -> None:
        self.value, self.calls = value, 0

    def __call__(self) -> Tensor:
        self.calls += 1
        return torch.full((3, 4), self.value)


def test_made_once(cache: Path) -> None:
    make = Maker()
    first = kept({"seed": 1, "shape": [3, 4]}, make)
    again = kept({"shape": [3, 4], "seed": 1}, make)
    assert make.calls == 1
    assert torch.equal(first, again)
    assert again.dtype == torch.float32
    again += 1.0  # one may work with it
    assert torch.equal(kept({"seed": 1, "shape": [3, 4]}, make), first)
    assert len(list(cache.iterdir())) == 1
    assert cache.stat().st_mode & 0o777 == 0o700  # for its owner only


def test_other_numbers_are_other_features() -> None:
    kept({"seed": 1}, Maker(1.0))
    assert torch.equal(kept({"seed": 2}, Maker(2.0)), torch.full((3, 4), 2.0))
    assert torch.equal(kept({"seed": 1}, Maker(3.0)), torch.full((3, 4), 1.0))


def test_a_cut_or_changed_file_is_made_anew(cache: Path) -> None:
    kept({"seed": 1}, Maker())
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    damaged = [whole[:size] for size in (0, 10, 31, 32, 33, 100, len(whole) - 1)]
    damaged += [whole + b"\0"]
    damaged += [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(0, len(whole), 9)]
    for content in damaged:
        file.write_bytes(content)
        make = Maker()
        assert torch.equal(kept({"seed": 1}, make), torch.full((3, 4), 1.5))
        assert make.calls == 1
        assert file.read_bytes() == whole


def test_a_file_under_another_name_is_not_used(cache: Path) -> None:
    kept({"seed": 1}, Maker(1.0))
    (one,) = cache.iterdir()
    kept({"seed": 2}, Maker(2.0))
    (two,) = set(cache.iterdir()) - {one}
    two.write_bytes(one.read_bytes())
    assert torch.equal(kept({"seed": 2}, Maker(2.0)), torch.full((3, 4), 2.0))


def test_without_a_place_to_write_it_is_made_each_time(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")
    make = Maker()
    for calls in (1, 2):
        assert torch.equal(kept({"seed": 1}, make), torch.full((3, 4), 1.5))
        assert make.calls == calls


def test_what_is_read_is_aligned_as_what_is_made() -> None:
    """The kernels of a product may take another path, and round otherwise, where numbers lie otherwise."""
    held = [kept({"seed": seed}, Maker()) for _ in range(2) for seed in range(20)]
    assert [tensor.data_ptr() % 64 for tensor in held] == [0] * 40


def test_only_float32() -> None:
    with pytest.raises(TypeError, match=r"must be float32, not torch\.float64"):
        kept({"seed": 1}, lambda: torch.zeros(2, dtype=torch.float64))


def test_the_digest_is_of_the_values() -> None:
    x = torch.arange(12.0).view(3, 4)
    assert digest(x) == digest(x.t().contiguous().t())
    changed = x.clone()
    changed[2, 3] += 1e-5
    assert digest(changed) != digest(x)
