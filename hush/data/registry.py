"""Data sets by name or by path."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hush.data import npz
from hush.data.fetch import Say, fetch, say_aloud, tables
from hush.data.known import SETS, Known, Read, known
from hush.data.samples import Samples
from hush.errors import Mistake

if TYPE_CHECKING:
    from hush.data.records import Records
    from hush.data.records.schema import Deal

Described = dict[str, Any]
DIGITS_PUBLIC = 64  # training rows of digits that no client holds
_DIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


@dataclass(frozen=True, eq=False)
class DataSet:
    """A set ready for training.

    `columns` hold one value per training row, to split by. `public` rows belong to no client and may be
    shown to anyone. `classes` is 1 if the targets are numbers. `source` says where the set came from,
    `digest` how its content was checked. `notes` say what was fitted on the data, for the privacy card.
    `split` is the column to split by, where the set has its own clients. `features` are the names of the columns of
    records, `rules` what each rule kept and dropped of them, `holders` the client of each test row, where one holds it,
    and `described` says what makes them of a table (hush.data.records.applying).
    """

    name: str
    train: Samples
    test: Samples
    classes: int
    source: str
    digest: str
    columns: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    public: Samples | None = None
    notes: tuple[str, ...] = ()
    split: str | None = None
    features: tuple[str, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    holders: np.ndarray[Any, Any] | None = None
    described: Described | None = None


def dataset(
    name: str | Path,
    say: Say = say_aloud,
    seed: int = 0,
    part: npz.Part | None = None,
    described: Described | None = None,
) -> DataSet:
    """A known set by its name, fetched if need be, an .npz file or the schema (.toml) of records by its path.

    `seed` draws the test rows of records; the other sets have their own. `part`: of an .npz file these rows alone are
    needed, and stand in for the others. `described`: the features of a trained model, in place of the schema's own.
    """
    path = Path(name)
    if path.suffix == ".npz":
        return _from_npz(path, part)
    place = schema_of(name, say)
    if place is not None:
        mine = path.suffix == ".toml"
        notes = () if mine else known(str(name)).notes
        called = path.stem if mine else str(name)
        return _from_records(called, place, records(place[0], say, described), notes, seed)
    wanted = known(str(name))
    return _digits() if wanted.read is None else _images(wanted, wanted.read, say)


def _images(wanted: Known, read: Read, say: Say) -> DataSet:
    fetched = fetch(wanted.name, say=say)
    train_x, train_y, test_x, test_y = read({file.name: fetched.contents[file.name] for file in wanted.files})
    return DataSet(
        wanted.name,
        Samples(_pixels(train_x, 255), torch.tensor(train_y, dtype=torch.int64)),
        Samples(_pixels(test_x, 255), torch.tensor(test_y, dtype=torch.int64)),
        classes=wanted.classes,
        source=fetched.source,
        digest="equal to the known SHA-256 of each file",
    )


def _digits() -> DataSet:
    """Scikit-learn's 8x8 digits: 64 public rows, then 80 % training and 20 % test by a fixed shuffle."""
    images, labels = _bundled()
    if hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() != _DIGITS_SHA256:
        raise Mistake("the digits of this scikit-learn differ from the known ones: install another version")
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    whole = Samples(_pixels(images[:, None], 16), torch.tensor(labels, dtype=torch.int64))
    held = len(images) // 5
    return DataSet(
        "digits",
        whole.rows(order[held + DIGITS_PUBLIC :]),
        whole.rows(order[:held]),
        classes=10,
        source="bundled with scikit-learn",
        digest="equal to the known SHA-256",
        public=whole.rows(order[held : held + DIGITS_PUBLIC]),
    )


def _bundled() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Its images and labels, from scikit-learn's own file: to import it takes a second."""
    found = find_spec("sklearn")
    path = Path(found.origin).parent / "datasets/data/digits.csv.gz" if found and found.origin else None
    if path is None or not path.is_file():
        raise Mistake("scikit-learn, which brings the digits, is not installed as usual: install it again")
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1]


def _from_npz(path: Path, part: npz.Part | None) -> DataSet:
    content = npz.read(path, part)
    return DataSet(
        path.stem,
        content.train,
        content.test,
        content.classes,
        source=f"file {path.name}",
        digest=f"none known; SHA-256 {content.sha256}",
        columns=content.columns,
        public=content.public,
    )


def schema_of(name: str | Path, say: Say = say_aloud) -> tuple[Path, str] | None:
    """The schema of hospital records, by its path or of a known set, and the source; None for another set."""
    path = Path(name)
    if path.suffix == ".toml":
        return path, f"schema {path.name}"
    if path.suffix != ".npz" and str(name) not in SETS and path.exists():
        raise Mistake(
            f"{name} is a table, and a schema says what is in it: draft one with"
            f" `hush data describe {name} --draft --out schema.toml`, and give that"
        )
    return None if path.suffix == ".npz" or known(str(name)).tables is None else tables(str(name), say)


def records(path: Path, say: Say = say_aloud, described: Described | None = None) -> Records:
    """The records that a schema describes, from the cache if its files are unchanged; see `dataset`."""
    from hush.data.records import read_schema  # polars is slow to import, and only records need it
    from hush.data.records.applying import applied
    from hush.data.records.stored import stored

    if described is None:
        return stored(read_schema(path), say)
    with TemporaryDirectory() as folder:
        return stored(applied(read_schema(path), described, Path(folder)), say)


def dealing(path: Path) -> Deal | None:
    """How a schema deals its records to virtual clients, if it does."""
    from hush.data.records import read_schema

    return read_schema(path).deal


def _from_records(name: str, place: tuple[Path, str], found: Records, notes: tuple[str, ...], seed: int) -> DataSet:
    from hush.data.records import deal, read_schema, split
    from hush.data.records.applying import described

    schema, source = read_schema(place[0]), place[1]
    wanted = schema.deal
    if bool((found.targets == found.targets[0]).all()):
        raise Mistake(
            f"all {len(found.targets)} rows that {source} keeps have the label {int(found.targets[0])}, so there is"
            " nothing to learn: check label and positive"
        )
    whole, public, holders = Samples(found.inputs, found.targets), None, None
    notes = (*notes, *(f"fitted on the records: {line}" for line in found.fitted))
    if found.fitted:
        notes = (*notes, "what is fitted on the records is in model.safetensors, which applies it to new rows")
    if wanted is None:
        train, test = split(found, seed=seed)
        clients, holders = found.clients[train.numpy()], found.clients[test.numpy()]
    else:
        dealt = deal(found, wanted, seed=seed)
        train, test, clients = torch.from_numpy(dealt.train), torch.from_numpy(dealt.test), dealt.clients
        if len(dealt.public):
            public = whole.rows(torch.from_numpy(dealt.public))
            notes = (*notes, f"{len(public)} rows of the records that [deal] makes public: nothing protects them")
    if not len(test):
        raise Mistake(f"{source}: no client has the 3 rows that a test row takes: give more rows to a client")
    if found.patients is not None:
        most = int(np.bincount(found.patients).max())
        notes = (*notes, f"one patient has up to {most} records, and a record is what record-level privacy protects")
    return DataSet(
        name,
        whole.rows(train),
        whole.rows(test),
        classes=max(2, int(found.targets.max()) + 1),
        source=source,
        digest=f"none known; SHA-256 of schema and files {found.digest}",
        columns={"client": clients},
        public=public,
        notes=notes,
        split="client",
        features=found.names,
        rules=tuple(asdict(rule) for rule in found.counts),
        holders=holders,
        described=described(schema, found),
    )


def _pixels(images: np.ndarray[Any, np.dtype[np.uint8]], top: int) -> torch.Tensor:
    return torch.tensor(images).to(torch.float32).div_(top)
