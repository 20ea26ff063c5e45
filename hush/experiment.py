"""From a configuration to what runs: data, model, scheme, with every choice resolved."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush import catalogue, models
from hush.catalogue import Entry, Knobs
from hush.clipping import public_bound
from hush.config import Config
from hush.data import DataSet, Samples, Split, load, partition, public_batch, samples
from hush.errors import Mistake
from hush.privacy import noise_for
from hush.rng import PublicSeed
from hush.sampling import Fixed, Poisson, Sampling
from hush.scheme import Scheme
from hush.stages import AdaptiveClip, Clip
from hush.task import Loss, Task


@dataclass(frozen=True)
class Habit:
    """What is usual for a data set: used where the configuration is silent."""

    clients: int = 100
    cohort: int = 20
    model: str = "mlp"
    rate: float = 0.1
    public: str | None = None


HABITS = {
    "fashion-mnist": Habit(clients=6000, cohort=100, model="cnn", rate=0.215, public="mnist"),
    "mnist": Habit(clients=6000, cohort=100, model="cnn", rate=0.215, public="fashion-mnist"),
    "digits": Habit(clients=130, cohort=30),
}
DELTA = 1e-5


def binary(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of one logit per row."""
    return F.binary_cross_entropy_with_logits(output.reshape(-1), target.reshape(-1).to(output.dtype))


LOSSES: dict[str, Loss] = {"cross-entropy": F.cross_entropy, "binary-cross-entropy": binary}


@dataclass(frozen=True)
class Experiment:
    """A resolved configuration, the task and scheme it names, and what the privacy card must say of it."""

    config: Config
    task: Task
    scheme: Scheme
    notes: tuple[str, ...]


def build(config: Config) -> Experiment:
    """Load the data, make the model, resolve clip and noise. The result's config is runnable as it is."""
    entry = catalogue.entry(config.scheme.name)
    _check(config, entry)  # before any data is loaded
    habit = HABITS.get(config.data.name, Habit())
    seed = PublicSeed(config.run.seed)
    data = _data(config.data.name)
    split = _split(config, data, habit)
    public, notes = _public(config, data, habit)
    sampling = _sampling(config, entry, len(split), habit)
    name = config.model.name or habit.model
    model = _model(name, data, seed)
    task = Task(model, _loss(config.model.loss), data.train, split, data.test, public)
    noise = _noise(config, sampling, len(split))
    knobs = Knobs(
        sampling=sampling,
        ratio=config.scheme.ratio,
        rate=config.train.rate or habit.rate,
        steps=config.train.steps,
        batch=config.train.batch,
        probe=config.train.probe,
        noise=noise or 1.0,
        vote=noise if config.scheme.select == "vote" else None,
    )
    clip = _clip(config, entry, knobs, task, seed) if entry.private else None
    if clip is not None:
        stage = (
            AdaptiveClip(quantile=config.scheme.quantile) if clip == "adaptive" else Clip(cast(float, clip))
        )
        knobs = replace(knobs, clip=stage)
    scheme = entry.scheme(knobs)
    scheme.check(task)
    settled = {
        "data": {"clients": len(split), "public": config.data.public or habit.public},
        "model": {"name": name},
        "scheme": {
            "name": entry.name,
            "clip": clip,
            "noise": noise,
            "epsilon": None,
            "delta": config.scheme.delta or DELTA,
        },
        "train": {"rate": knobs.rate},
        "sampling": {"kind": sampling.kind, "cohort": round(sampling.cohort(len(split)))},
    }
    tables = {table: getattr(config, table).model_copy(update=keys) for table, keys in settled.items()}
    return Experiment(config.model_copy(update=tables), task, scheme, notes)


def _check(config: Config, entry: Entry) -> None:
    """What can be refused without data."""
    scheme, cohort = config.scheme, config.sampling.cohort
    if scheme.epsilon is not None and scheme.delta is None:
        raise Mistake(
            f"epsilon={scheme.epsilon:g} needs a delta: add --delta 1e-5, less than one over the clients"
        )
    if scheme.epsilon is not None and scheme.noise is not None:
        raise Mistake("epsilon and noise are both given: give one, the other follows from it")
    if not entry.private and (scheme.epsilon is not None or scheme.noise is not None):
        raise Mistake(f"{entry.name} has no noise to set: take {entry.name}-dp")
    if not entry.private and scheme.select == "vote":
        raise Mistake(
            f"select='vote' is a noisy vote and {entry.name} has no guarantee: take {entry.name}-dp"
        )
    if entry.private and scheme.epsilon is None and scheme.noise is None:
        raise Mistake(f"{entry.name} needs its privacy: give --epsilon E --delta D, or --noise SIGMA")
    if cohort is not None and config.data.clients is not None and cohort > config.data.clients:
        raise Mistake(f"cohort={cohort} is larger than the population of {config.data.clients}: lower it")


def _sampling(config: Config, entry: Entry, population: int, habit: Habit) -> Sampling:
    wanted = config.sampling
    cohort = wanted.cohort or min(habit.cohort, population)
    if cohort > population:
        raise Mistake(f"cohort={cohort} is larger than the population of {population}: lower it")
    if (wanted.kind or ("poisson" if entry.private else "fixed")) == "poisson":
        return Poisson(cohort / population, wanted.floor, wanted.tolerance)
    return Fixed(cohort, wanted.floor, wanted.tolerance)


def _model(name: str, data: DataSet, seed: PublicSeed) -> nn.Module:
    shape = data.train.inputs.shape[1:]
    if ".py:" not in name:
        return models.build(name, shape, data.classes, seed)
    torch.manual_seed(seed.value)  # the function may draw its weights as PyTorch does
    model = _function(name)(shape, data.classes)
    if not isinstance(model, nn.Module):
        raise Mistake(f"{name} returned a {type(model).__name__}: it must return a torch.nn.Module")
    return model


def _noise(config: Config, sampling: Sampling, population: int) -> float | None:
    """The multiplier as given, or the smallest that keeps to epsilon over all rounds and the vote."""
    scheme = config.scheme
    if scheme.epsilon is None or scheme.delta is None:
        return scheme.noise
    releases = config.run.rounds + (scheme.select == "vote")
    rate, slack = sampling.rate(population), sampling.slack(population)
    return noise_for(scheme.epsilon, scheme.delta, rate, releases, scheme.accountant, sampling.kind, slack)


def _clip(config: Config, entry: Entry, knobs: Knobs, task: Task, seed: PublicSeed) -> float | str:
    """The bound as a number, or "adaptive" (the default)."""
    wanted = config.scheme.clip or "adaptive"
    if wanted == "paper":
        return catalogue.paper_clip(entry.name, config.data.name, config.scheme.ratio)
    if wanted == "public":
        return public_bound(entry, knobs, task, seed)
    return wanted


def _data(name: str) -> DataSet:
    if ".py:" not in name:
        return load(name)
    found = _function(name)()
    if isinstance(found, DataSet):
        return found
    if not isinstance(found, tuple) or len(found) not in (2, 3):
        raise Mistake(
            f"{name} must return (train, test) or (train, test, public), each (inputs, targets) or a Dataset"
        )
    parts = [samples(part) for part in found]
    whole = parts[0].targets
    classes = 1 if whole.is_floating_point() else int(max(part.targets.max() for part in parts)) + 1
    public = parts[2] if len(parts) == 3 else None
    return DataSet(name, parts[0], parts[1], classes, source=name, digest="none known", public=public)


def _split(config: Config, data: DataSet, habit: Habit) -> Split:
    wanted, rows = config.data, len(data.train)
    clients = wanted.clients or min(habit.clients, rows)
    seed = config.run.seed
    if wanted.partition == "iid":
        return partition.iid(rows, clients, seed, wanted.size)
    if wanted.partition == "shards":
        return partition.shards(data.train.targets, clients, seed, wanted.shards)
    if wanted.partition == "dirichlet":
        return partition.dirichlet(data.train.targets, clients, wanted.alpha, seed)
    if wanted.column is None or wanted.column not in data.columns:
        known = ", ".join(data.columns) or "none"
        raise Mistake(
            f"partition 'column' needs the name of a column, not {wanted.column!r} (there are: {known})"
        )
    split = partition.column(data.columns[wanted.column])
    if wanted.clients is not None and wanted.clients != len(split):
        raise Mistake(
            f"clients={wanted.clients}, but column {wanted.column!r} names {len(split)}: leave clients out"
        )
    return split


def _public(config: Config, data: DataSet, habit: Habit) -> tuple[Samples | None, tuple[str, ...]]:
    """The public batch, and what the card says of it."""
    size, seed = config.data.public_size, config.run.seed
    name = config.data.public or habit.public
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
    return batch, (f"public batch: {note}",)


def _loss(name: str) -> Loss:
    if ".py:" in name:
        return cast(Loss, _function(name))
    if name not in LOSSES:
        raise Mistake(f"loss {name!r} is not known: choose {', '.join(LOSSES)} or write file.py:function")
    return LOSSES[name]


def _function(reference: str) -> Callable[..., Any]:
    """The function that file.py:function names."""
    place, _, name = reference.rpartition(":")
    path = Path(place)
    if not path.is_file():
        raise Mistake(f"{path} is not there: give file.py:function")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise Mistake(f"{path} has no function {name!r}: give file.py:function")
    return cast(Callable[..., Any], found)
