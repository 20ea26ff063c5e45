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
from hush.coordinates import All, Only, TopK
from hush.data import DataSet, Samples, Split, load, partition, public_batch, samples
from hush.errors import Mistake
from hush.privacy import noise_for
from hush.rng import PublicSeed
from hush.sampling import Fixed, Poisson, Sampling
from hush.scheme import Scheme
from hush.stages import AdaptiveClip, Clip
from hush.task import Loss, Task
from hush.trainers import Engine
from hush.trainers.cohort import choose
from hush.trainers.vmapped import gradients
from hush.weights import flatten


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
RATIO = 0.005
QUANTILE = 0.5


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
    engine: Engine
    notes: tuple[str, ...]
    files: tuple[Path, ...] = ()


def build(config: Config) -> Experiment:
    """Load the data, make the model, resolve clip and noise. The result's config is runnable as it is."""
    entry = catalogue.entry(config.scheme.name)
    _check(config, entry)  # before any data is loaded
    habit = HABITS.get(config.data.name, Habit())
    seed = PublicSeed(config.run.seed)
    data = _data(config.data.name)
    split = _split(config, data, habit)
    sampling = _sampling(config, entry, len(split), habit)
    knobs = Knobs(
        sampling=sampling,
        ratio=config.scheme.ratio or RATIO,
        rate=config.train.rate or habit.rate,
        steps=config.train.steps,
        batch=config.train.batch,
        probe=config.train.probe,
    )
    name = config.model.name or habit.model
    model = _model(name, data, seed)
    public, notes = _public(config, entry, knobs, data, habit)
    task = Task(model, _loss(config.model.loss), data.train, split, data.test, public)
    _try(task)
    engine = Engine(config.run.engine or choose(task), config.run.device)
    noise = _noise(config, sampling, len(split))
    knobs = replace(knobs, noise=noise, vote=noise if config.scheme.select == "vote" else None)
    clip = _clip(config, entry, knobs, task, seed) if entry.private else None
    quantile = (config.scheme.quantile or QUANTILE) if clip == "adaptive" else None
    if clip is not None:
        knobs = replace(knobs, clip=AdaptiveClip(quantile=quantile) if quantile else Clip(cast(float, clip)))
    scheme = entry.scheme(knobs)
    scheme.check(task)
    delta = config.scheme.delta or DELTA
    if entry.private and delta * len(split) >= 1:
        notes = (*notes, f"delta {delta:g} is not below one over the {len(split)} clients: a weak guarantee")
    settled = {
        "data": {"clients": len(split), "public": (config.data.public or habit.public) if public else None},
        "model": {"name": name},
        "scheme": {
            "name": entry.name,
            "ratio": None if isinstance(scheme.coordinates, All | Only) else knobs.ratio,
            "clip": clip,
            "quantile": quantile,
            "noise": noise,
            "epsilon": None,
            "delta": delta,
        },
        "train": {"rate": knobs.rate},
        "sampling": {"kind": sampling.kind, "cohort": round(sampling.cohort(len(split)))},
        "run": {"engine": engine.kind},
    }
    tables = {table: getattr(config, table).model_copy(update=keys) for table, keys in settled.items()}
    names = (config.data.name, name, config.model.loss)
    own = tuple(Path(n.rpartition(":")[0]) for n in names if ".py:" in n)
    return Experiment(config.model_copy(update=tables), task, scheme, engine, notes, own)


def _check(config: Config, entry: Entry) -> None:
    """What can be refused without data, and what would be ignored in silence."""
    scheme, data, cohort = config.scheme, config.data, config.sampling.cohort
    chosen = entry.build(Knobs()).coordinates
    refused = {
        "epsilon and noise are both given: give one, the other follows from it": (
            scheme.epsilon is not None and scheme.noise is not None
        ),
        f"{entry.name} has no noise to set: take {entry.name}-dp": (
            not entry.private and (scheme.epsilon is not None or scheme.noise is not None)
        ),
        f"{entry.name} clips nothing: take {entry.name}-dp": (
            not entry.private and (scheme.clip is not None or scheme.quantile is not None)
        ),
        f"{entry.name} needs its privacy: give --epsilon E --delta D, or --noise SIGMA": (
            entry.private and scheme.epsilon is None and scheme.noise is None
        ),
        f"{entry.name} has no Top-K to vote on: leave select out": (
            scheme.select == "vote" and not isinstance(chosen, TopK)
        ),
        f"select='vote' is a noisy vote and {entry.name} has no guarantee: take {entry.name}-dp": (
            scheme.select == "vote" and not entry.private
        ),
        "quantile belongs to clip='adaptive': leave one of them out": (
            scheme.quantile is not None and scheme.clip not in (None, "adaptive")
        ),
        "size belongs to partition='iid': leave it out": data.size is not None and data.partition != "iid",
        "shards belongs to partition='shards': add it": data.shards is not None and data.partition != "shards",
        "alpha belongs to partition='dirichlet': add it": (data.alpha is not None and data.partition != "dirichlet"),
        "column belongs to partition='column': add it": data.column is not None and data.partition != "column",
    }
    if scheme.epsilon is not None and scheme.delta is None:
        raise Mistake(f"epsilon={scheme.epsilon:g} needs a delta: add --delta 1e-5, less than one over the clients")
    for sentence, wrong in refused.items():
        if wrong:
            raise Mistake(sentence)
    if cohort is not None and data.clients is not None and cohort > data.clients:
        raise Mistake(f"cohort={cohort} is larger than the population of {data.clients}: lower it")


def _sampling(config: Config, entry: Entry, population: int, habit: Habit) -> Sampling:
    wanted = config.sampling
    cohort = wanted.cohort or min(habit.cohort, population)
    if cohort > population:
        raise Mistake(f"cohort={cohort} is larger than the population of {population}: lower it")
    if wanted.floor > cohort:
        raise Mistake(f"floor={wanted.floor} is above the cohort of {cohort}: rounds would abort; lower it")
    if (wanted.kind or ("poisson" if entry.private else "fixed")) == "poisson":
        return Poisson(cohort / population, wanted.floor, wanted.tolerance)
    return Fixed(cohort, wanted.floor, wanted.tolerance)


def _model(name: str, data: DataSet, seed: PublicSeed) -> nn.Module:
    shape = data.train.inputs.shape[1:]
    if ".py:" not in name:
        return models.build(name, shape, data.classes, seed)
    torch.manual_seed(seed.value)  # the function may draw its weights as PyTorch does
    model = _call(name, shape, data.classes)
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
    if slack * releases >= scheme.delta:
        raise Mistake(
            f"floor={sampling.floor} is too near the cohort: visible aborts alone cost more than delta; lower it"
        )
    return noise_for(scheme.epsilon, scheme.delta, rate, releases, scheme.accountant, sampling.kind, slack)


def _clip(config: Config, entry: Entry, knobs: Knobs, task: Task, seed: PublicSeed) -> float | str:
    """The bound as a number, or "adaptive" (the default)."""
    wanted = config.scheme.clip or "adaptive"
    if wanted == "paper":
        return catalogue.paper_clip(entry.name, config.data.name, knobs.ratio)
    if wanted == "public":
        return public_bound(entry, knobs, task, seed)
    return wanted


def _data(name: str) -> DataSet:
    if ".py:" not in name:
        return load(name)
    found = _call(name)
    if isinstance(found, DataSet):
        return found
    if not isinstance(found, tuple) or len(found) not in (2, 3):
        raise Mistake(f"{name} must return (train, test) or (train, test, public), each (inputs, targets) or a Dataset")
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
        return partition.shards(data.train.targets, clients, seed, wanted.shards or 2)
    if wanted.partition == "dirichlet":
        return partition.dirichlet(data.train.targets, clients, wanted.alpha or 0.5, seed)
    if wanted.column is None or wanted.column not in data.columns:
        known = ", ".join(data.columns) or "none"
        raise Mistake(f"partition 'column' needs the name of a column, not {wanted.column!r} (there are: {known})")
    split = partition.column(data.columns[wanted.column])
    if wanted.clients is not None and wanted.clients != len(split):
        raise Mistake(f"clients={wanted.clients}, but column {wanted.column!r} names {len(split)}: leave clients out")
    return split


def _public(
    config: Config, entry: Entry, knobs: Knobs, data: DataSet, habit: Habit
) -> tuple[Samples | None, tuple[str, ...]]:
    """The public batch, where something needs it, and what the card says of it."""
    chosen = isinstance(entry.build(knobs).coordinates, TopK) and config.scheme.select == "public"
    if not chosen and config.scheme.clip != "public":
        return None, ()
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
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Mistake(f"{path} cannot be loaded: {_first_line(error)}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise Mistake(f"{path} has no function {name!r}: give file.py:function")
    return cast(Callable[..., Any], found)


def _call(reference: str, *arguments: object) -> Any:
    """What the named function returns; whatever it raises is the user's."""
    function = _function(reference)
    try:
        return function(*arguments)
    except Mistake:
        raise
    except Exception as error:
        raise Mistake(f"{reference} fails: {_first_line(error)}") from error


def _try(task: Task) -> None:
    """One gradient on two rows, so that a model, loss and data that do not fit are told before the run."""
    weights = flatten(task.model)
    for part in (task.train, task.public, task.test):
        if part is None:
            continue
        try:
            gradients(task.model, task.loss, weights, None)(
                weights[None], part.inputs[:2][None], part.targets[:2][None]
            )
        except Exception as error:
            raise Mistake(f"the model, the loss and the data do not fit: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]
