"""From a configuration to what runs: data, model, scheme, with every choice resolved."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from hush.catalogue.clipping import paper_clip, public_bound
from hush.catalogue.forms import Entry
from hush.catalogue.secure_form import secured
from hush.catalogue.settings import OWN, usual
from hush.catalogue.values import Settings
from hush.core.engine import Engine
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.data.fetch import Say
from hush.data.registry import DataSet
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.experiment import budget, cohorts, own, population
from hush.experiment.checks import check
from hush.experiment.config import Config
from hush.experiment.defaults import values
from hush.experiment.own import call, first_line, function
from hush.experiment.population import BINARY, DATA_DEFAULTS, RECORDS, DataDefaults
from hush.models import networks
from hush.models.losses import LOSSES, Loss, Weighted, balanced
from hush.models.weights import flatten
from hush.parts.stages import AdaptiveClip, Clip
from hush.parts.trainers import Balance
from hush.parts.trainers.cohort import choose
from hush.parts.trainers.vmapped import gradients
from hush.random.seeds import PublicSeed

DELTA, QUANTILE = usual("delta"), usual("quantile")


@dataclass(frozen=True)
class Experiment:
    """A resolved configuration, the task and scheme it names, and what the privacy card must say of it.

    files: of the user's own, with code; published: the scheme is a paper's.
    """

    config: Config
    task: Task
    scheme: Scheme
    engine: Engine
    notes: tuple[str, ...]
    files: tuple[Path, ...] = ()
    published: bool = False


def build(config: Config, say: Say = population.quiet, data: DataSet | None = None) -> Experiment:
    """Load the data, make the model, resolve clip and noise. The result's config is runnable as it is.

    `say` hears how far the features of images are, a sentence each time. `data`: what the configuration names, where
    the caller has it already.
    """
    entry = own.entry(config.scheme.name)
    check(config, entry)  # before any data is loaded
    if "rounds" not in config.run.model_fields_set:
        usual = {"rounds": entry.usual.get("rounds", config.run.rounds)}
        config = config.model_copy(update={"run": config.run.model_copy(update=usual)})
    seed = PublicSeed(config.run.seed)
    data = data or population.found(config.data.name, config.run.seed)
    binary = data.classes == 2 and isinstance(data.train.inputs, Sparse)
    defaults = DATA_DEFAULTS.get(config.data.name.partition(":")[0], RECORDS if binary else DataDefaults())
    settings = values(config, entry, defaults)
    images = entry.featured and population.are_images(data)
    if entry.featured and not images and (config.scheme.features or config.scheme.scattering_order):
        raise Mistake(
            f"features and scattering_order are for images, and {data.name} has rows of numbers: leave them out"
        )
    if entry.featured:
        data, defaults = population.featured(data, settings, say), replace(defaults, model="head")
    config, split = population.split(config, data, defaults, entry)
    sampling = cohorts.sampling(config, entry, len(split), defaults)
    settings, loss, notes = _balanced(config, entry, replace(settings, sampling=sampling), data, defaults)
    name = config.model.name or defaults.model
    model = _model(name, data, 1 if loss.name == BINARY else data.classes, seed)
    public, noted = population.public(config, entry, settings, data, defaults)
    task = Task(model, loss.function, data.train, split, data.test, public)
    _try(task)
    engine = Engine(config.run.engine or choose(task.problem, task.population), config.run.device)
    noise = budget.noise(config, entry, settings, task)
    settings = replace(settings, noise=noise, vote=noise if config.scheme.select == "vote" else None)
    clip = _clip(config, entry, settings, task, seed) if entry.has("clip") else None
    quantile = (config.scheme.quantile or QUANTILE) if clip == "adaptive" else None
    if clip is not None:
        settings = replace(settings, clip=AdaptiveClip(quantile=quantile) if quantile else Clip(cast(float, clip)))
    scheme = _secured(config, entry, entry.scheme(settings), task)
    scheme.check(task)
    sampling = scheme.sampling
    delta = config.scheme.delta or DELTA
    count, what = (len(split.rows), "records") if entry.level == "record" else (len(split), "clients")
    if entry.private and delta * count >= 1:
        noted = (*noted, f"delta {delta:g} is not below one over the {count} {what}: a weak guarantee")
    drawn = entry.pooled or entry.has("sampling")
    settled = {
        "data": {"clients": len(split), **_public(config, data, defaults, public)},
        "model": {"name": name, "loss": loss.name},
        "scheme": {
            "name": entry.name,
            "clip": clip,
            "quantile": quantile,
            "noise": noise,
            "delta": delta,
            **{key: getattr(settings, key) if entry.has(key) else None for key in OWN},
            **_bits(entry, scheme, task),
            "average": scheme.average or None,
            "downlink_bits": None if scheme.baseline else scheme.downlink.bits,
            "features": data.train.inputs.shape[1] - 1 if images else None,  # small images have fewer than asked
            "scattering_order": settings.scattering_order if images else None,
        },
        "secure": _secure(scheme),
        "train": {
            "rate": settings.rate if entry.has("rate") else None,
            "steps": settings.steps if entry.has("steps") and not settings.epochs else None,
            "epochs": settings.epochs,
            "batch": (settings.batch or "all") if entry.has("batch") else None,
            # A share that was not given is not written either: a resumed run is to say again where it is from.
            "balance": loss.balance,
            "batches": settings.batches if entry.level == "record" else None,
        },
        "sampling": {
            "kind": sampling.kind,
            # Of turns the cohort follows from the rounds; a scheme may have a sampling of its own.
            "cohort": round(sampling.cohort(len(split))) if sampling.turns is None and drawn else None,
            "passes": sampling.turns.passes if sampling.turns is not None and drawn else None,
        },
        "run": {"engine": engine.kind},
    }
    tables = {table: getattr(config, table).model_copy(update=keys) for table, keys in settled.items()}
    names = (entry.name, config.data.name, name, loss.name)
    files = tuple(Path(n.rpartition(":")[0]) for n in names if ".py:" in n)
    notes = (*data.notes, *notes, *noted)
    return Experiment(config.model_copy(update=tables), task, scheme, engine, notes, files, entry.published)


def _public(config: Config, data: DataSet, defaults: DataDefaults, batch: Samples | None) -> dict[str, Any]:
    if batch is None:
        return {"public": None}
    return {"public": config.data.public or defaults.public, "public_size": population.public_size(config, data)}


@dataclass(frozen=True)
class _Loss:
    """The task's loss, its name, and what is done about a rare class."""

    name: str
    function: Loss
    balance: Balance


def _balanced(
    config: Config, entry: Entry, settings: Settings, data: DataSet, defaults: DataDefaults
) -> tuple[Settings, _Loss, tuple[str, ...]]:
    """The loss, with weights or the trainer with batches that make up for a rare class."""
    name = config.model.loss or defaults.loss
    plain = _loss(name)
    two = data.classes == 2
    balance: Balance = config.train.balance or (entry.usual.get("balance", "none") if two else "none")
    if balance == "none" and config.train.share is not None and two:
        raise Mistake(f"share={config.train.share} is for a balance of weights, downsample or rates: leave it out")
    if balance == "none":
        return settings, _Loss(name, plain, balance), ()
    if not two:
        raise Mistake(f"balance={balance!r} is for two classes, and {data.name} has {data.classes}: leave it out")
    if balance == "downsample" and entry.level != "record":  # at each client, by its own labels
        return replace(settings, balance=balance), _Loss(name, plain, balance), ()
    share = config.train.share
    notes: tuple[str, ...] = ()
    if share is None:
        share = float(data.train.targets.float().mean())
        notes = (f"the share of the rarer class, {share:.4f}, is that of the training rows: give [train] share",)
    if not 0 < share < 1:
        raise Mistake(f"all rows of {data.name} have one label: balance={balance!r} needs both classes")
    if entry.level == "record" and share > 0.5:
        raise Mistake(
            f"label 1 is the larger class of {data.name} ({share:.0%} of the rows), and balance={balance!r} takes it"
            " as the rarer one: swap the labels, or say balance='none'"
        )
    if entry.level != "record":  # whose trainer weighs by itself, before it clips
        return settings, _Loss(name, Weighted(plain, balanced(share)), balance), notes
    return replace(settings, balance=balance, share=share), _Loss(name, plain, balance), notes


def _secured(config: Config, entry: Entry, scheme: Scheme, task: Task) -> Scheme:
    """In integers, where a secure sum is asked for."""
    wanted = config.secure
    if wanted.mode is None:
        return scheme
    given = {"rounding": wanted.rounding, "kind": wanted.noise, "servers": wanted.servers, "corrupt": wanted.corrupt}
    bits = None if entry.has("bits") else config.scheme.bits
    known: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return secured(scheme, task, bits=bits, full=wanted.mode == "full", seed=config.run.seed, **known)


def _secure(scheme: Scheme) -> dict[str, Any]:
    """What a secure sum settled on; what it may lose follows from its bits."""
    found = scheme.aggregator.secrecy
    if found is None:
        return {}
    return {**found._asdict(), "rounding": None, "noise": None if scheme.source is None else scheme.source.integer}


def _bits(entry: Entry, scheme: Scheme, task: Task) -> dict[str, int]:
    """What an integer takes, where the user could have chosen it."""
    modulus = scheme.specs(scheme.coordinates.count(task.layout))[-1].form.modulus
    return {"bits": modulus} if modulus is not None and not entry.has("bits") else {}


def _model(name: str, data: DataSet, outputs: int, seed: PublicSeed) -> nn.Module:
    shape = data.train.inputs.shape[1:]
    if ".py:" not in name:
        return networks.build(name, shape, outputs, seed)
    torch.manual_seed(seed.value)  # the function may draw its weights as PyTorch does
    model = call(name, shape, outputs)
    if not isinstance(model, nn.Module):
        raise Mistake(f"{name} returned a {type(model).__name__}: it must return a torch.nn.Module")
    return model


def _clip(config: Config, entry: Entry, settings: Settings, task: Task, seed: PublicSeed) -> float | str:
    """The bound as a number, or "adaptive" (the default where clients are protected)."""
    usual, wanted = entry.usual.get("clip"), config.scheme.clip
    if usual is not None and usual.constant and (wanted is None or (wanted == "paper" and entry.level == "record")):
        return cast(float, usual.constant)
    wanted = wanted or "adaptive"
    if wanted == "paper":
        return paper_clip(entry.name, config.data.name, settings.ratio)
    if wanted == "public":
        return public_bound(entry, settings, task, seed)
    return wanted


def _loss(name: str) -> Loss:
    if ".py:" in name:
        return cast(Loss, function(name))
    if name not in LOSSES:
        raise Mistake(f"loss {name!r} is not known: choose {', '.join(LOSSES)} or write file.py:function")
    return LOSSES[name]


def _try(task: Task) -> None:
    """One gradient on two rows, so that a model, loss and data that do not fit are reported before the run."""
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
