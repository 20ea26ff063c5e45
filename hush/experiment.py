"""From a configuration to what runs: data, model, scheme, with every choice resolved."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from hush import budget, catalogue, holdings, models
from hush.aggregators import SecureSum
from hush.catalogue import Entry
from hush.checks import check
from hush.clipping import paper_clip, public_bound
from hush.config import Config
from hush.data import DataSet, Samples
from hush.data.fetch import Say
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.holdings import BINARY, HABITS, RECORDS, Habit
from hush.knobs import Knobs
from hush.losses import LOSSES, Weighted, balanced
from hush.own import call, first_line, function
from hush.rng import PublicSeed
from hush.sampling import Fixed, Once, Poisson, Sampling
from hush.scheme import Scheme
from hush.secured import at_least, secured
from hush.stages import AdaptiveClip, Clip, FixedPoint, IntegerNoise, Quantise
from hush.task import Loss, Task
from hush.trainers import Balance, Engine
from hush.trainers.cohort import choose
from hush.trainers.vmapped import gradients
from hush.weights import flatten

DELTA = 1e-5
QUANTILE = 0.5
STEPS, BATCH = 5, 10


@dataclass(frozen=True)
class Experiment:
    """A resolved configuration, the task and scheme it names, and what the privacy card must say of it."""

    config: Config
    task: Task
    scheme: Scheme
    engine: Engine
    notes: tuple[str, ...]
    files: tuple[Path, ...] = ()


def build(config: Config, say: Say = holdings.quiet, data: DataSet | None = None) -> Experiment:
    """Load the data, make the model, resolve clip and noise. The result's config is runnable as it is.

    `say` hears how far the features of pictures are, a sentence each time. `data`: what the configuration names, where
    the caller has it already.
    """
    entry = catalogue.entry(config.scheme.name)
    check(config, entry)  # before any data is loaded
    if "rounds" not in config.run.model_fields_set:
        usual = {"rounds": entry.usual.get("rounds", config.run.rounds)}
        config = config.model_copy(update={"run": config.run.model_copy(update=usual)})
    seed = PublicSeed(config.run.seed)
    data = data or holdings.found(config.data.name, config.run.seed)
    binary = data.classes == 2 and isinstance(data.train.inputs, Sparse)
    habit = HABITS.get(config.data.name.partition(":")[0], RECORDS if binary else Habit())
    knobs = _knobs(config, entry, habit)
    pictures = entry.featured and holdings.pictured(data)
    if entry.featured and not pictures and (config.scheme.directions or config.scheme.order):
        raise Mistake(f"directions and order are for pictures, and {data.name} has rows of numbers: leave them out")
    if entry.featured:
        data, habit = holdings.featured(data, knobs, say), replace(habit, model="head")
    config, split = holdings.split(config, data, habit, entry)
    sampling = _sampling(config, entry, len(split), habit)
    knobs, loss, notes = _balanced(config, entry, replace(knobs, sampling=sampling), data, habit)
    name = config.model.name or habit.model
    model = _model(name, data, 1 if loss.name == BINARY else data.classes, seed)
    public, noted = holdings.public(config, entry, knobs, data, habit)
    task = Task(model, loss.function, data.train, split, data.test, public)
    _try(task)
    engine = Engine(config.run.engine or choose(task), config.run.device)
    noise = budget.noise(config, entry, knobs, task)
    knobs = replace(knobs, noise=noise, vote=noise if config.scheme.select == "vote" else None)
    clip = _clip(config, entry, knobs, task, seed) if entry.private else None
    quantile = (config.scheme.quantile or QUANTILE) if clip == "adaptive" else None
    if clip is not None:
        knobs = replace(knobs, clip=AdaptiveClip(quantile=quantile) if quantile else Clip(cast(float, clip)))
    scheme = _secured(config, entry.scheme(knobs), task)
    scheme.check(task)
    delta = config.scheme.delta or DELTA
    count, what = (len(split.rows), "records") if entry.level == "record" else (len(split), "clients")
    if entry.private and delta * count >= 1:
        noted = (*noted, f"delta {delta:g} is not below one over the {count} {what}: a weak guarantee")
    settled = {
        "data": {"clients": len(split), **_public(config, data, habit, public)},
        "model": {"name": name, "loss": loss.name},
        "scheme": {
            "name": entry.name,
            "clip": clip,
            "quantile": quantile,
            "noise": noise,
            "delta": delta,
            **{key: getattr(knobs, key) if catalogue.has(scheme, key) else None for key in catalogue.OWN},
            **_bits(scheme),
            "average": scheme.average or None,
            "down": None if scheme.apart else scheme.down.bits,
            "directions": data.train.inputs.shape[1] - 1 if pictures else None,  # small pictures have fewer than asked
            "order": knobs.order if pictures else None,
        },
        "secure": _secure(scheme),
        "train": {
            "rate": knobs.rate,
            "steps": None if knobs.epochs else knobs.steps,
            "epochs": knobs.epochs,
            "batch": knobs.batch or "all",
            # A share that was not given is not written either: a resumed run is to say again where it is from.
            "balance": loss.balance,
            "batches": knobs.batches if entry.level == "record" else None,
        },
        "sampling": {
            "kind": sampling.kind,
            # Of turns the cohort follows from the rounds.
            "cohort": None if isinstance(sampling, Once) else round(sampling.cohort(len(split))),
            "passes": sampling.passes if isinstance(sampling, Once) else None,
        },
        "run": {"engine": engine.kind},
    }
    tables = {table: getattr(config, table).model_copy(update=keys) for table, keys in settled.items()}
    names = (config.data.name, name, loss.name)
    own = tuple(Path(n.rpartition(":")[0]) for n in names if ".py:" in n)
    notes = (*data.notes, *notes, *noted)
    return Experiment(config.model_copy(update=tables), task, scheme, engine, notes, own)


def _public(config: Config, data: DataSet, habit: Habit, batch: Samples | None) -> dict[str, Any]:
    if batch is None:
        return {"public": None}
    return {"public": config.data.public or habit.public, "public_size": holdings.public_size(config, data)}


def _knobs(config: Config, entry: Entry, habit: Habit) -> Knobs:
    """What the configuration, the scheme's own paper or the data's habit say, in this order."""
    train, usual = config.train, {**entry.settings}
    usual.pop("sampling", None)
    if train.steps is not None or train.epochs is not None:
        usual |= {"steps": train.steps, "epochs": train.epochs}
    else:
        usual = {"steps": STEPS, "epochs": None, **usual}
    batch = usual.get("batch", BATCH) if train.batch is None else train.batch
    return Knobs(
        **{
            **usual,
            **{key: getattr(config.scheme, key) for key in catalogue.OWN if getattr(config.scheme, key) is not None},
            **{
                key: getattr(config.scheme, key)
                for key in ("average", "down", "directions", "order")
                if getattr(config.scheme, key) is not None
            },
            "seed": config.run.seed,
            "rate": train.rate or usual.get("rate", habit.rate),
            "batch": None if batch == "all" else batch,
            "probe": train.probe,
            "batches": train.batches or "poisson",
            "divisor": train.divisor or "public",
            "clip": usual.get("clip", Clip(1.0)),  # settled later
        }
    )


@dataclass(frozen=True)
class _Loss:
    """The task's loss, its name, and what is done about a rare class."""

    name: str
    function: Loss
    balance: Balance


def _balanced(
    config: Config, entry: Entry, knobs: Knobs, data: DataSet, habit: Habit
) -> tuple[Knobs, _Loss, tuple[str, ...]]:
    """The loss, with weights or the trainer with batches that make up for a rare class."""
    name = config.model.loss or habit.loss
    plain = _loss(name)
    two = data.classes == 2
    balance: Balance = config.train.balance or (entry.usual.get("balance", "none") if two else "none")
    if balance == "none" and config.train.share is not None and two:
        raise Mistake(f"share={config.train.share} is for a balance of weights, downsample or rates: leave it out")
    if balance == "none":
        return knobs, _Loss(name, plain, balance), ()
    if not two:
        raise Mistake(f"balance={balance!r} is for two classes, and {data.name} has {data.classes}: leave it out")
    if balance == "downsample" and entry.level != "record":  # at each client, by its own labels
        return replace(knobs, balance=balance), _Loss(name, plain, balance), ()
    share = config.train.share
    notes: tuple[str, ...] = ()
    if share is None:
        share = float(data.train.targets.float().mean())
        notes = (f"the share of the rarer class, {share:.4f}, is that of the training rows: give [train] share",)
    if not 0 < share < 1:
        raise Mistake(f"all rows of {data.name} have one label: balance={balance!r} needs both classes")
    if entry.level == "record" and share > 0.5:
        raise Mistake(
            f"label 1 is the commoner class of {data.name} ({share:.0%} of the rows), and balance={balance!r} takes it"
            " as the rarer one: swap the labels, or say balance='none'"
        )
    if entry.level != "record":  # whose trainer weighs by itself, before it clips
        return knobs, _Loss(name, Weighted(plain, balanced(share)), balance), notes
    return replace(knobs, balance=balance, share=share), _Loss(name, plain, balance), notes


def _sampling(config: Config, entry: Entry, population: int, habit: Habit) -> Sampling:
    wanted = config.sampling
    usual = entry.usual.get("sampling")
    if (wanted.kind or getattr(usual, "kind", None)) == "once":
        return _turns(config, population)
    drawn = habit.cohort if usual is None else max(1, round(usual.cohort(population)))
    cohort = wanted.cohort or (population if entry.build is catalogue.standalone else min(drawn, population))
    if cohort > population:
        raise Mistake(f"cohort={cohort} is larger than the population of {population}: lower it")
    if wanted.floor > cohort:
        raise Mistake(f"floor={wanted.floor} is above the cohort of {cohort}: rounds would abort; lower it")
    found: Sampling = Fixed(cohort, wanted.floor, wanted.tolerance, wanted.dropout)
    if (wanted.kind or ("poisson" if entry.level == "client" else "fixed")) == "poisson":
        found = Poisson(cohort / population, wanted.floor, wanted.tolerance, wanted.dropout)
    return found if config.secure.mode is None else at_least(found)


def _turns(config: Config, population: int) -> Sampling:
    """Each client in its turn: as many cohorts as there are rounds in a pass."""
    wanted, passes = config.sampling, config.sampling.passes or 1
    if config.run.rounds % passes:
        raise Mistake(f"rounds={config.run.rounds} are not {passes} equal passes: take a multiple")
    found = Once(config.run.rounds // passes, passes, config.run.seed, wanted.floor, wanted.tolerance, wanted.dropout)
    if wanted.cohort not in (None, round(found.cohort(population))):
        raise Mistake(f"cohort={wanted.cohort} does not follow from the rounds of sampling once: leave it out")
    return found if config.secure.mode is None else at_least(found)


def _secured(config: Config, scheme: Scheme, task: Task) -> Scheme:
    """In whole numbers, where a secure sum is asked for."""
    wanted = config.secure
    if wanted.mode is None:
        return scheme
    given = {"loss": wanted.loss, "kind": wanted.noise, "servers": wanted.servers, "corrupt": wanted.corrupt}
    bits = None if catalogue.has(scheme, "bits") else config.scheme.bits
    known: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return secured(scheme, task, bits=bits, full=wanted.mode == "full", seed=config.run.seed, **known)


def _secure(scheme: Scheme) -> dict[str, Any]:
    """What a secure sum settled on; what it may lose is told by its bits."""
    found = scheme.aggregator
    if not isinstance(found, SecureSum):
        return {}
    noise = next((stage.kind for stage in scheme.stages if isinstance(stage, IntegerNoise)), None)
    mode = "full" if found.full else "simulated"
    return {"mode": mode, "servers": found.servers, "corrupt": found.corrupt, "loss": None, "noise": noise}


def _bits(scheme: Scheme) -> dict[str, int]:
    whole = [stage.bits for stage in scheme.stages if isinstance(stage, Quantise | FixedPoint)]
    return {} if not whole or catalogue.has(scheme, "bits") else {"bits": whole[0]}


def _model(name: str, data: DataSet, outputs: int, seed: PublicSeed) -> nn.Module:
    shape = data.train.inputs.shape[1:]
    if ".py:" not in name:
        return models.build(name, shape, outputs, seed)
    torch.manual_seed(seed.value)  # the function may draw its weights as PyTorch does
    model = call(name, shape, outputs)
    if not isinstance(model, nn.Module):
        raise Mistake(f"{name} returned a {type(model).__name__}: it must return a torch.nn.Module")
    return model


def _clip(config: Config, entry: Entry, knobs: Knobs, task: Task, seed: PublicSeed) -> float | str:
    """The bound as a number, or "adaptive" (the default where clients are protected)."""
    usual, wanted = entry.usual.get("clip"), config.scheme.clip
    if isinstance(usual, Clip) and (wanted is None or (wanted == "paper" and entry.level == "record")):
        return usual.bound
    wanted = wanted or "adaptive"
    if wanted == "paper":
        return paper_clip(entry.name, config.data.name, knobs.ratio)
    if wanted == "public":
        return public_bound(entry, knobs, task, seed)
    return wanted


def _loss(name: str) -> Loss:
    if ".py:" in name:
        return cast(Loss, function(name))
    if name not in LOSSES:
        raise Mistake(f"loss {name!r} is not known: choose {', '.join(LOSSES)} or write file.py:function")
    return LOSSES[name]


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
            raise Mistake(f"the model, the loss and the data do not fit: {first_line(error)}") from error
