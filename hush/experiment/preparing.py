"""What a run is about, before anybody is asked to take part: the data, the loss, the network, the public batch."""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import nn

from hush.catalogue.forms import Entry
from hush.catalogue.values import Settings
from hush.data.fetch import Say
from hush.data.registry import DataSet
from hush.data.samples import Samples, Split
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.experiment import fronts, own, population
from hush.experiment.checks import check
from hush.experiment.config import Config
from hush.experiment.defaults import values
from hush.experiment.fronts import Front, Own, Plain
from hush.experiment.given import Given
from hush.experiment.own import call, function
from hush.experiment.population import BINARY, DATA_DEFAULTS, RECORDS, DataDefaults
from hush.experiment.settings import PYTHON
from hush.models import networks
from hush.models.losses import LOSSES, Loss, Weighted, balanced
from hush.models.measures import choice
from hush.models.measures.choice import Metrics
from hush.parts.trainers import Balance
from hush.random.seeds import PublicSeed


@dataclass(frozen=True)
class Prepared:
    """A configuration with the scheme's usual values, and all that follows from it and the data alone.

    shape, dtype: of the data's own rows, before `front` makes features of them. notes and noted: for the privacy card.
    split: that of a Python program.
    """

    config: Config
    entry: Entry
    data: DataSet
    defaults: DataDefaults
    settings: Settings
    loss: "NamedLoss"
    model_name: str
    model: nn.Module
    public: Samples | None
    metrics: Metrics | None
    shape: tuple[int, ...]
    dtype: str
    front: Front
    notes: tuple[str, ...]
    noted: tuple[str, ...]
    split: Split | None = None

    @property
    def outputs(self) -> int:
        """Of the network."""
        return outputs(self.loss.name, self.data)


def prepare(config: Config, say: Say = population.quiet, given: Given | None = None) -> Prepared:
    """Load the data and make the model; see hush.experiment.resolving.build."""
    given = given or Given()
    entry = own.entry(config.scheme.name)
    check(config, entry)  # before any data is loaded
    if "rounds" not in config.run.model_fields_set:
        usual = {"rounds": entry.usual.get("rounds", config.run.rounds)}
        config = config.model_copy(update={"run": config.run.model_copy(update=usual)})
    seed = PublicSeed(config.run.seed)
    data = given.data or population.found(config.data.name, config.run.seed)
    raw = data.train.inputs
    shape, dtype = tuple(raw.shape[1:]), str((raw.values if isinstance(raw, Sparse) else raw).dtype)
    binary = data.classes == 2 and isinstance(data.train.inputs, Sparse)
    defaults = DATA_DEFAULTS.get(config.data.name.partition(":")[0], RECORDS if binary else DataDefaults())
    settings = values(config, entry, defaults)
    front: Front = Plain()
    if entry.featured:
        front = _front(config, data, settings, given, say)
        if not front.basis:
            chosen = config.scheme.model_dump(exclude_none=True)
            settings = replace(settings, **{key: value for key, value in entry.tables.items() if key not in chosen})
        data, defaults = population.featured(data, settings, say, front), replace(defaults, model="head")
    settings, loss, notes = _balanced(config, entry, settings, data, defaults, given.loss)
    name = config.model.name or defaults.model
    model = given.model or model_of(name, data.train.inputs.shape[1:], outputs(loss.name, data), seed)
    public, noted = population.public(config, entry, settings, data, defaults)
    return Prepared(
        config,
        entry,
        data,
        defaults,
        settings,
        loss,
        name,
        model,
        public,
        given.metrics or metrics_of(config.model.metrics),
        shape,
        dtype.removeprefix("torch."),
        front,
        notes,
        noted,
        given.split,
    )


def _front(config: Config, data: DataSet, settings: Settings, given: Given, say: Say) -> Front:
    """What makes the features of a scheme that trains on them."""
    wanted, mine = config.scheme.features, given.features
    if wanted == PYTHON and mine is None:
        raise Mistake("the features are those of a Python program, and no file has them: run that program again")
    if isinstance(wanted, str) and mine is None:
        mine = Own(wanted, function(wanted))
    if mine is None and not fronts.are_images(data) and (wanted or config.scheme.scattering_order):
        raise Mistake(
            f"features and scattering_order are for images, and {data.name} has rows of numbers: leave them out"
        )
    return fronts.chosen(data, settings.features or 200, settings.scattering_order, mine, say)


@dataclass(frozen=True)
class NamedLoss:
    """The task's loss, its name, and what is done about a rare class: `share` is that of its rows, where it weighs."""

    name: str
    function: Loss
    balance: Balance
    share: float | None = None


def _balanced(
    config: Config, entry: Entry, settings: Settings, data: DataSet, defaults: DataDefaults, own: Loss | None
) -> tuple[Settings, NamedLoss, tuple[str, ...]]:
    """The loss, with weights or the trainer with batches that make up for a rare class; `own`: a Python program's."""
    name = config.model.loss or _usual(data, defaults)
    plain = own or loss_of(name)
    two = data.classes == 2
    balance: Balance = config.train.balance or (entry.usual.get("balance", "none") if two else "none")
    if balance == "none" and config.train.share is not None and two:
        raise Mistake(f"share={config.train.share} is for a balance of weights, downsample or rates: leave it out")
    if balance == "none":
        return settings, NamedLoss(name, plain, balance), ()
    if not two:
        raise Mistake(f"balance={balance!r} is for two classes, and {data.name} has {data.classes}: leave it out")
    if balance == "downsample" and entry.level != "record":  # at each client, by its own labels
        return replace(settings, balance=balance), NamedLoss(name, plain, balance), ()
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
        return settings, NamedLoss(name, Weighted(plain, balanced(share)), balance, share), notes
    return replace(settings, balance=balance, share=share), NamedLoss(name, plain, balance), notes


def outputs(loss: str, data: DataSet) -> int:
    """Of a network: one for each number of a target, for a yes or no, or for each class."""
    wanted = data.train.targets
    if wanted.is_floating_point():
        return wanted.shape[1:].numel()
    return 1 if loss == BINARY else data.classes


def _usual(data: DataSet, defaults: DataDefaults) -> str:
    """The loss where none is given: by what the targets are."""
    wanted = data.train.targets
    if not wanted.is_floating_point():
        return defaults.loss
    labels = wanted.shape[1:].numel() > 1 and bool(((wanted == 0) | (wanted == 1)).all())
    return BINARY if labels else "mean-squared-error"


def model_of(name: str, shape: torch.Size, outputs: int, seed: PublicSeed) -> nn.Module:
    """The network of this name for rows of this shape, with its first weights."""
    if name == PYTHON:
        raise Mistake("the network was given by a Python program, and no file has it: run that program again")
    if ".py:" not in name:
        return networks.build(name, shape, outputs, seed)
    torch.manual_seed(seed.value)  # the function may draw its weights as PyTorch does
    model = call(name, shape, outputs)
    if not isinstance(model, nn.Module):
        raise Mistake(f"{name} returned a {type(model).__name__}: it must return a torch.nn.Module")
    return model


def loss_of(name: str, share: float | None = None) -> Loss:
    """The loss of this name; with the share of the rarer class, it weighs that class up."""
    if name == PYTHON:
        raise Mistake("the loss was given by a Python program, and no file has it: run that program again")
    if ".py:" not in name and name not in LOSSES:
        raise Mistake(f"loss {name!r} is not known: choose {', '.join(LOSSES)} or write file.py:function")
    plain = LOSSES[name] if name in LOSSES else cast(Loss, function(name))
    return plain if share is None else Weighted(plain, balanced(share))


def metrics_of(name: str | None) -> Metrics | None:
    """The kind of measures of this name, or the user's own function; None: found from the data."""
    if name == PYTHON:
        raise Mistake("the metrics were given by a Python program, and no file has them: run that program again")
    found = cast(Metrics, function(name)) if name is not None and ".py:" in name else name
    choice.check(found)
    return found
