"""The data of a run, and who holds which part of it: found, turned into features, split."""

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from hush.catalogue.entries import Entry
from hush.catalogue.values import Settings
from hush.data import files, partition
from hush.data.fetch import Say, ready
from hush.data.known import known
from hush.data.npz import Part
from hush.data.public import public_batch
from hush.data.registry import DataSet, dataset
from hush.data.samples import Samples, Split
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.experiment import fronts
from hush.experiment.fronts import Front
from hush.experiment.given import data_set
from hush.experiment.own import call
from hush.experiment.settings import PATHS, PYTHON, Config, DataTable
from hush.parts.trainers.balance import downsample, labels
from hush.random.seeds import PublicSeed


@dataclass(frozen=True)
class DataDefaults:
    """What is usual for a data set: used where the configuration and the scheme are silent."""

    clients: int = 100
    cohort: int = 20
    model: str = "mlp"
    loss: str = "cross-entropy"
    rate: float = 0.1
    public: str | None = None


BINARY = "binary-cross-entropy"
DATA_DEFAULTS = {
    "fashion-mnist": DataDefaults(clients=6000, cohort=100, model="cnn", rate=0.215, public="mnist"),
    "mnist": DataDefaults(clients=6000, cohort=100, model="cnn", rate=0.215, public="fashion-mnist"),
    "cifar10": DataDefaults(clients=100, cohort=20, model="cnn-color", public="cifar100"),
    "cifar100": DataDefaults(clients=100, cohort=20, model="cnn-color", public="cifar10"),
    "digits": DataDefaults(clients=130, cohort=30),
    "premier-virtual": DataDefaults(cohort=100, loss=BINARY),
    "diabetes130-virtual": DataDefaults(cohort=20, loss=BINARY),
}
RECORDS = DataDefaults(cohort=3, loss=BINARY, rate=0.01)  # records with a yes or no to predict


def found(name: str, seed: int, part: Part | None = None) -> DataSet:
    """The named set, with nothing in it that would train without a word and mean something else."""
    if name == PYTHON:
        raise Mistake("the data was given by a Python program, and no file has it: run that program again")
    data = dataset(name, seed=seed, part=part) if ".py:" not in name else data_set(call(name), name)
    return checked(data)


def checked(data: DataSet) -> DataSet:
    """The same set, if its rows and labels can be meant as they are."""
    shape = data.train.inputs.shape
    if len(shape) == 4 and shape[3] <= 4 < shape[1]:
        raise Mistake(
            f"{data.name} has images of shape {tuple(shape[1:])}, with the channels last: put them first, as in"
            " x.transpose(0, 3, 1, 2)"
        )
    if data.classes < 2 and not data.train.targets.is_floating_point():
        raise Mistake(f"all labels of {data.name} are 0, so there is nothing to learn: give two classes or more")
    return data


def odd(data: DataSet) -> list[str]:
    """What of the labels trains as it is, and is likely meant otherwise; for who runs a simulation, and no card."""
    targets = data.train.targets
    if targets.is_floating_point():
        two = targets.numel() > 1 and bool(((targets == 0) | (targets == 1)).all())
        return ["the targets are 0.0 and 1.0, taken as numbers: give integers for classes"] if two else []
    if targets.dim() != 1 or data.classes < 2:
        return []
    absent = (torch.bincount(targets, minlength=data.classes) == 0).nonzero().flatten().tolist()
    if not absent:
        return []
    which = ", ".join(map(str, absent[:5])) + (", ..." if len(absent) > 5 else "")
    return [f"no training row has the label {which}, of 0 to {data.classes - 1}: classes are counted from 0"]


def named(config: Config) -> list[str]:
    """What of a configuration is named, and may be a file's."""
    tables = config.model_dump()
    found = (tables[table][key] for table, _, key in (path.partition(".") for path in PATHS))
    return [name for name in found if isinstance(name, str)]


def missing(config: Config) -> str | None:
    """What of a configuration is not to be had without fetching data or running own code, in words; None if all is."""
    for name in named(config):
        if name == PYTHON:
            return "a part of this run was given by a Python program, which is not run for this"
        if ".py:" in name:
            return f"{name} is code, which is not run for this"
    for name in filter(None, (config.data.name, config.data.public)):
        mine = Path(name).suffix in (".npz", ".toml")
        if not (Path(name).is_file() if mine else ready(known(name))):
            return f"{name} is not on this machine"
    return None


def split(
    config: Config, data: DataSet, defaults: DataDefaults, entry: Entry, own: Split | None = None
) -> tuple[Config, Split]:
    """Who holds what, and the configuration that says so in full; `own`: as a Python program says."""
    wanted, defaults = config.data, replace(defaults, clients=entry.usual.get("clients", defaults.clients))
    kind = "pooled" if entry.pooled else wanted.partition or ("column" if data.split else "iid")
    column = (wanted.column or data.split) if kind == "column" else wanted.column
    wanted = wanted.model_copy(update={"partition": kind, "column": column})
    if kind == "own" and own is not None:
        return config.model_copy(update={"data": wanted}), own
    return config.model_copy(update={"data": wanted}), _parts(wanted, data, defaults, config.run.seed)


def sites(config: Config, count: int) -> Config:
    """The configuration of a server, whose clients are elsewhere."""
    if config.data.clients not in (None, count):
        raise Mistake(f"clients={config.data.clients}, and {count} sites are on the roster: leave clients out")
    return config.model_copy(update={"data": config.data.model_copy(update={"partition": "sites"})})


def _parts(wanted: DataTable, data: DataSet, defaults: DataDefaults, seed: int) -> Split:
    rows = len(data.train)
    if wanted.partition == "pooled":
        return partition.iid(rows, 1, seed)
    if wanted.partition == "sites":
        raise Mistake("partition='sites' is that of a server, whose clients are elsewhere: `hush server` takes it")
    if wanted.partition == "own":
        raise Mistake("partition='own' is that of a Python program, which says who holds what: run it again")
    clients = wanted.clients or min(defaults.clients, rows)
    if wanted.partition == "iid":
        return partition.iid(rows, clients, seed, wanted.size)
    if wanted.partition == "shards":
        return partition.shards(data.train.targets, clients, seed, wanted.shards or 2)
    if wanted.partition == "dirichlet":
        return partition.dirichlet(data.train.targets, clients, wanted.alpha or 0.5, seed)
    if wanted.column is None or wanted.column not in data.columns:
        known = ", ".join(data.columns) or "none with a value for each training row"
        raise Mistake(f"partition 'column' needs the name of a column, not {wanted.column!r} (there are: {known})")
    split = partition.column(data.columns[wanted.column])
    if wanted.clients is not None and wanted.clients != len(split):
        raise Mistake(f"clients={wanted.clients}, but column {wanted.column!r} names {len(split)}: leave clients out")
    return split


def public_size(config: Config, data: DataSet) -> int:
    """How many rows the public batch takes: 10 images, or all public rows of hospital records."""
    whole = len(data.public) if data.public is not None and isinstance(data.train.inputs, Sparse) else 10
    return config.data.public_size or whole


def public(
    config: Config, entry: Entry, settings: Settings, data: DataSet, defaults: DataDefaults
) -> tuple[Samples | None, tuple[str, ...]]:
    """The public batch, where something needs it, and what the card says of it."""
    chosen = entry.build(replace(settings, noise=1.0)).coordinates.probes and config.scheme.select == "public"
    if not chosen and config.scheme.clip != "public":
        return None, ()
    size, seed = public_size(config, data), config.run.seed
    name = config.data.public or defaults.public
    if name is not None and name == config.data.name and data.public is None:
        raise Mistake(f"public={name!r} is the clients' own data: name another set, or give rows that no client holds")
    if name is not None:
        batch, note = public_batch(name, size, seed, data.train.inputs.shape[1:])
    elif data.public is not None:
        order = torch.from_numpy(PublicSeed(seed).generator("public batch").permutation(len(data.public)))
        batch, note = (
            data.public.rows(order[:size]),
            f"{min(size, len(data.public))} public rows of {data.name}",
        )
    else:
        return None, ()
    if settings.balance == "downsample":
        classes = labels(batch.targets)
        kept = downsample(np.arange(len(classes)), classes, PublicSeed(seed).generator("public batch, downsampling"))
        if not len(kept):
            raise Mistake(f"the {len(classes)} public rows have one label, and downsampling needs both: take more")
        batch, note = batch.rows(torch.from_numpy(kept)), f"{note}, {len(kept)} of them after downsampling"
    use = f"; steps on it that choose the weights: {settings.probe}" if chosen else ""
    return batch, (f"public batch: {note}{use}",)


def quiet(line: str) -> None:
    """Says nothing."""


def featured(data: DataSet, settings: Settings, say: Say = quiet, front: Front | None = None) -> DataSet:
    """The same set with public features of its images, or rows of its numbers, in place of them.

    `say` hears how far the features are, where the cache has none. `front`: what makes them, chosen if not given.
    """
    front = front or fronts.chosen(data, settings.features or 200, settings.scattering_order, None, say)
    parts = {name: part for name in ("train", "test", "public") if (part := getattr(data, name)) is not None}
    shape, what = data.train.inputs.shape[1:], "images" if fronts.are_images(data) else "rows"
    found, before, total = {}, 0, sum(map(len, parts.values()))
    for name, part in parts.items():
        if part.inputs.shape[1:] != shape:
            raise Mistake(
                f"{what} of {data.name} have the shape {tuple(shape)} to train and {tuple(part.inputs.shape[1:])} in"
                f" {name}: make them one size"
            )

        def progress(done: int, of: int, before: int = before) -> None:
            say(f"features of {data.name}: {before + done} of {total} {what}")

        found[name] = replace(part, inputs=front(part.inputs, progress, keep=True))
        before += len(part)
    return replace(data, **found, notes=(*data.notes, *front.notes))


def deal(name: str, folder: Path, sites: list[str], partition: str, seed: int) -> list[Path]:
    """Deal a set's training rows to sites, an .npz file for each, for a rehearsal; test and public rows in test.npz.

    A simulation of as many clients, with the same seed and partition, has the same rows at each, in order of names.
    """
    data = found(name, seed)
    if isinstance(data.train.inputs, Sparse):
        raise Mistake(f"{name} has records of codes, which no .npz holds: cut its table into one for each site")
    wanted = DataTable.model_validate({"name": name, "clients": len(sites), "partition": partition})
    split, written = _parts(wanted, data, DataDefaults(), seed), []
    for number, site in enumerate(sorted(sites)):
        own = data.train.rows(split.rows_of(number))
        written.append(_npz(folder / f"{site}.npz", {"train": own}))
    rows = {"test": data.test} if data.public is None else {"test": data.test, "public": data.public}
    return [*written, _npz(folder / "test.npz", rows)]


def _npz(path: Path, parts: dict[str, Samples]) -> Path:
    if path.exists():
        raise Mistake(f"{path} exists: choose another folder")
    arrays = {}
    for name, rows in parts.items():
        arrays[f"x_{name}"], arrays[f"y_{name}"] = cast(Tensor, rows.inputs).numpy(), rows.targets.numpy()
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    files.write(path, packed.getvalue())
    return path
