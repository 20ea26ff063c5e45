"""What a run is about, before anybody is asked to take part: the data, the loss, the network, the public batch."""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import nn

from hush.catalogue.forms import Entry
from hush.catalogue.values import Settings
from hush.data.fetch import Say
from hush.data.registry import DataSet
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.experiment import own, population
from hush.experiment.checks import check
from hush.experiment.config import Config
from hush.experiment.defaults import values
from hush.experiment.own import call, function
from hush.experiment.population import BINARY, DATA_DEFAULTS, RECORDS, DataDefaults
from hush.models import networks
from hush.models.losses import LOSSES, Loss, Weighted, balanced
from hush.models.measures import choice
from hush.models.measures.choice import Metrics
from hush.parts.trainers import Balance
from hush.random.seeds import PublicSeed


@dataclass(frozen=True)
class Prepared:
    """A configuration with the scheme's usual values, and all that follows from it and the data alone.

    shape: of the data's own rows, before features are made of them. notes and noted: for the privacy card.
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
    images: bool
    notes: tuple[str, ...]
    noted: tuple[str, ...]

    @property
    def outputs(self) -> int:
        """Of the network."""
        return outputs(self.loss.name, self.data)


def prepare(config: Config, say: Say = population.quiet, data: DataSet | None = None) -> Prepared:
    """Load the data and make the model; see hush.experiment.resolving.build."""
    entry = own.entry(config.scheme.name)
    check(config, entry)  # before any data is loaded
    if "rounds" not in config.run.model_fields_set:
        usual = {"rounds": entry.usual.get("rounds", config.run.rounds)}
        config = config.model_copy(update={"run": config.run.model_copy(update=usual)})
    seed = PublicSeed(config.run.seed)
    data = data or population.found(config.data.name, config.run.seed)
    shape = tuple(data.train.inputs.shape[1:])
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
    settings, loss, notes = _balanced(config, entry, settings, data, defaults)
    name = config.model.name or defaults.model
    model = model_of(name, data.train.inputs.shape[1:], outputs(loss.name, data), seed)
    public, noted = population.public(config, entry, settings, data, defaults)
    metrics = metrics_of(config.model.metrics)
    return Prepared(
        config, entry, data, defaults, settings, loss, name, model, public, metrics, shape, images, notes, noted
    )


@dataclass(frozen=True)
class NamedLoss:
    """The task's loss, its name, and what is done about a rare class: `share` is that of its rows, where it weighs."""

    name: str
    function: Loss
    balance: Balance
    share: float | None = None


def _balanced(
    config: Config, entry: Entry, settings: Settings, data: DataSet, defaults: DataDefaults
) -> tuple[Settings, NamedLoss, tuple[str, ...]]:
    """The loss, with weights or the trainer with batches that make up for a rare class."""
    name = config.model.loss or _usual(data, defaults)
    plain = loss_of(name)
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
        return settings, NamedLoss(name, loss_of(name, share), balance, share), notes
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
    if ".py:" not in name:
        return networks.build(name, shape, outputs, seed)
    torch.manual_seed(seed.value)  # the function may draw its weights as PyTorch does
    model = call(name, shape, outputs)
    if not isinstance(model, nn.Module):
        raise Mistake(f"{name} returned a {type(model).__name__}: it must return a torch.nn.Module")
    return model


def loss_of(name: str, share: float | None = None) -> Loss:
    """The loss of this name; with the share of the rarer class, it weighs that class up."""
    if ".py:" not in name and name not in LOSSES:
        raise Mistake(f"loss {name!r} is not known: choose {', '.join(LOSSES)} or write file.py:function")
    plain = LOSSES[name] if name in LOSSES else cast(Loss, function(name))
    return plain if share is None else Weighted(plain, balanced(share))


def metrics_of(name: str | None) -> Metrics | None:
    """The kind of measures of this name, or the user's own function; None: found from the data."""
    found = cast(Metrics, function(name)) if name is not None and ".py:" in name else name
    choice.check(found)
    return found
