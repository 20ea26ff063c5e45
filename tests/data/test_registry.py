import dataclasses
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from hush.data import known
from hush.data.known import DIGITS, MNIST, File
from hush.data.public import public_batch
from hush.data.registry import dataset
from hush.data.summary import summary
from hush.errors import Mistake


def rows(inputs: torch.Tensor) -> set[bytes]:
    return {row.numpy().tobytes() for row in inputs}


def test_digits_are_split_in_three_without_overlap() -> None:
    data = dataset("digits")
    assert data.public is not None
    assert (len(data.train), len(data.test), len(data.public)) == (1374, 359, 64)
    assert data.train.inputs.shape[1:] == (1, 8, 8)
    assert data.train.inputs.dtype == torch.float32
    assert (float(data.train.inputs.min()), float(data.train.inputs.max())) == (0, 1)
    assert data.classes == len(data.train.targets.unique()) == 10
    # the 1,797 images are all different, so equal rows would mean that two parts share one
    assert len(rows(data.train.inputs) | rows(data.test.inputs) | rows(data.public.inputs)) == 1797
    assert torch.equal(dataset("digits").train.inputs, data.train.inputs)


def test_digits_keep_each_image_with_its_label() -> None:
    from sklearn.datasets import load_digits

    bundle = load_digits()
    label = {
        (image / 16).astype(np.float32).tobytes(): t for image, t in zip(bundle.images, bundle.target, strict=True)
    }
    data = dataset("digits")
    assert [label[x.numpy().tobytes()] for x in data.test.inputs] == data.test.targets.tolist()


def test_idx_sets_are_images_between_0_and_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for file, count in zip(MNIST.files, (6, 6, 2, 2), strict=True):
        shape = (count, 28, 28) if "images" in file.name else (count,)
        body = (np.arange(np.prod(shape)) % (256 if "images" in file.name else 10)).astype(np.uint8).tobytes()
        content = b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + body
        (tmp_path / file.name).write_bytes(content)
        files.append(File(file.name, len(content), hashlib.sha256(content).hexdigest()))
    monkeypatch.setenv("HUSH_DATA", str(tmp_path))
    monkeypatch.setitem(known.SETS, "mnist", dataclasses.replace(MNIST, files=tuple(files)))
    data = dataset("mnist")
    assert data.train.inputs.shape == (6, 1, 28, 28)
    assert data.test.inputs.shape == (2, 1, 28, 28)
    assert torch.equal(data.train.inputs[0, 0, 0, :3], torch.tensor([0, 1 / 255, 2 / 255]))
    assert float(data.train.inputs.max()) == 1
    assert data.train.targets.tolist() == [0, 1, 2, 3, 4, 5]
    assert data.public is None
    assert data.source == "HUSH_DATA"
    batch, note = public_batch("mnist", 3, 0, (1, 28, 28))
    assert rows(batch.inputs) <= rows(data.train.inputs)
    assert len(rows(batch.inputs)) == 3
    assert note == "3 rows of mnist"


@pytest.mark.parametrize(
    ("name", "nearest"), [("fashon-mnist", "fashion-mnist"), ("MNIST", "mnist"), ("digit", "digits")]
)
def test_an_unknown_name_gets_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(Mistake, match=rf"'{name}' is not known \(the nearest is {nearest}\).*fashion-mnist, mnist"):
        dataset(name)


def test_a_name_like_no_other() -> None:
    with pytest.raises(
        Mistake, match=r"'xyz' is not known: take one of fashion-mnist, mnist, cifar10, cifar100, digits"
    ):
        dataset("xyz")


def test_a_public_batch_falls_back_to_digits_and_says_so() -> None:
    batch, note = public_batch("mnist", 10, 5, (1, 28, 28), say=lambda line: None)
    assert batch.inputs.shape == (10, 1, 28, 28)
    assert note == "10 rows of digits resized to 28x28; mnist could not be had, so the bundled digits stand in"
    assert 0 <= float(batch.inputs.min()) < float(batch.inputs.max()) <= 1
    assert not torch.equal(batch.inputs, public_batch("digits", 10, 6, (1, 28, 28))[0].inputs)


def test_the_public_batch_of_digits_is_no_private_row() -> None:
    data = dataset("digits")
    batch, note = public_batch("digits", 64, 0, (1, 8, 8))
    assert data.public is not None
    assert rows(batch.inputs) == rows(data.public.inputs)
    assert note == "64 rows of digits"


def test_grey_public_rows_serve_for_colours() -> None:
    grey, _ = public_batch("digits", 5, 0, (1, 8, 8))
    same, note = public_batch("digits", 5, 0, (3, 8, 8))
    assert torch.equal(same.inputs, grey.inputs.expand(5, 3, 8, 8))
    assert note == "5 rows of digits in grey as 3 channels"
    large, note = public_batch("cifar100", 5, 0, (3, 32, 32), say=lambda line: None)
    assert large.inputs.shape == (5, 3, 32, 32)
    assert note.startswith("5 rows of digits in grey as 3 channels resized to 32x32; cifar100 could not be had")


@pytest.mark.parametrize(
    ("size", "shape", "words"),
    [
        (0, (1, 8, 8), "size=0"),
        (65, (1, 8, 8), "size=65 exceeds the 64"),
        (5, (64,), "fitted"),
    ],
)
def test_a_public_batch_that_cannot_be(size: int, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(Mistake, match=words):
        public_batch("digits", size, 0, shape)


def test_a_file_damaged_by_the_user_is_no_reason_to_fall_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in MNIST.files:
        (tmp_path / file.name).write_bytes(b"not what it should be")
    monkeypatch.setenv("HUSH_DATA", str(tmp_path))
    with pytest.raises(Mistake, match="cut off"):
        public_batch("mnist", 10, 0, (1, 28, 28))


def test_the_summary_counts(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    y = np.array([0, 2, 2])
    np.savez(
        path,
        x_train=np.array([[1.0], [2], [5]]),
        y_train=y,
        x_test=np.ones((1, 1)),
        y_test=y[:1],
        ward=list("aab"),
    )
    facts = summary(path)
    assert facts["labels"] == {"0": 1, "2": 2}
    assert facts["columns"] == {"ward": 2}
    assert facts["shape"] == [1]
    assert (facts["lowest"], facts["highest"], facts["classes"]) == (1, 5, 3)
    assert facts["source"] == "file mine.npz"
    assert hashlib.sha256(path.read_bytes()).hexdigest() in facts["digest"]


def test_every_digest_is_a_digest() -> None:
    digests = [file.sha256 for one in known.SETS.values() if one.base is None for file in one.files]
    assert len(set(digests)) == len(digests) == 17
    assert all(len(bytes.fromhex(digest)) == 32 for digest in digests)
    assert DIGITS.files == ()
