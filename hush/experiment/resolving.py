"""From a configuration to what runs: data, model, scheme, with every choice resolved."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from hush.audit.canaries import FEWEST, Canaries, CanaryClients
from hush.audit.wrong_labels import CanaryRecords
from hush.catalogue.clipping import paper_clip, public_bound
from hush.catalogue.forms import Entry
from hush.catalogue.secure_form import secured
from hush.catalogue.settings import OWN, usual
from hush.catalogue.values import Settings
from hush.core.engine import Engine
from hush.core.scheme import Scheme
from hush.core.task import Enrolled, Population, Problem, Registered, Task
from hush.data.fetch import Say
from hush.data.registry import DataSet
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.experiment import budget, cohorts, population
from hush.experiment.config import Config
from hush.experiment.fronts import Front, Plain
from hush.experiment.given import Given
from hush.experiment.model import About, about
from hush.experiment.population import DataDefaults
from hush.experiment.preparing import Prepared, prepare
from hush.federation.trial import walk
from hush.models import fit
from hush.models.inputs import fitted
from hush.parts.stages import AdaptiveClip, Clip
from hush.parts.trainers.cohort import choose
from hush.random.seeds import PublicSeed

DELTA, QUANTILE = usual("delta"), usual("quantile")


@dataclass(frozen=True)
class Experiment:
    """A resolved configuration, the task and scheme it names, and what the privacy card must say of it.

    files: of the user's own, with code; published: the scheme is a paper's; deployed: draws are the operating system's.
    data: what the task was made of; the server of a network has none but test and public rows in it.
    about: what its model takes and gives; front: what makes the model's rows. canaries: those of an audit.
    """

    config: Config
    task: Registered
    scheme: Scheme
    engine: Engine
    notes: tuple[str, ...]
    files: tuple[Path, ...] = ()
    published: bool = False
    deployed: bool = False
    data: DataSet | None = None
    about: About | None = None
    front: Front = Plain()
    canaries: Canaries | None = None


def build(config: Config, say: Say = population.quiet, given: Given | None = None) -> Experiment:
    """Load the data, make the model, resolve clip and noise. The result's config is runnable as it is.

    `say` hears how far the features of images are, a sentence each time. `given`: what the configuration names, where
    the caller has it already.
    """
    return resolve(prepare(config, say, given))


def resolve(ready: Prepared, sizes: Tensor | None = None) -> Experiment:
    """The rest, once it is known who takes part.

    sizes: the records of clients that are registered elsewhere; of the data then only test and public rows count.
    """
    config, entry, data, loss = ready.config, ready.entry, ready.data, ready.loss
    seed, notes, noted = PublicSeed(config.run.seed), ready.notes, ready.noted
    task: Registered
    if sizes is None:
        config, split = population.split(config, data, ready.defaults, entry, ready.split)
        parts = (data.train, split, data.test, ready.public, ready.metrics)
        task = Task(ready.model, loss.function, *parts, featured=entry.featured)
        sample = task.population
    else:
        problem = Problem(ready.model, loss.function, data.test, ready.public, ready.metrics, entry.featured)
        config, task = population.sites(config, len(sizes)), Enrolled(problem, sizes)
        sample = Population(fitted(ready.model, data.test), Split.of([range(len(data.test))]))
    canaries = _canaries(config, entry, task)
    if canaries is not None and isinstance(task, Task):
        task = canaries.trained(task)
    settings = replace(ready.settings, sampling=cohorts.sampling(config, entry, task.clients, ready.defaults))
    fit.check(task.problem, {"train": fitted(ready.model, data.train), **task.parts})
    engine = Engine(config.run.engine or choose(task.problem, sample), config.run.device)
    noise = budget.noise(config, entry, settings, task)
    settings = replace(settings, noise=noise, vote=noise if config.scheme.select == "vote" else None)
    clip = _clip(config, entry, settings, task, seed) if entry.has("clip") else None
    quantile = (config.scheme.quantile or QUANTILE) if clip == "adaptive" else None
    if clip is not None:
        settings = replace(settings, clip=AdaptiveClip(quantile=quantile) if quantile else Clip(cast(float, clip)))
    if settings.blocks > config.run.rounds:
        raise Mistake(
            f"blocks={settings.blocks} take turns, and in {config.run.rounds} rounds some would never travel: lower"
            " scheme.blocks, or raise rounds"
        )
    scheme = _secured(config, entry, entry.scheme(settings), task)
    scheme.check(task)
    walk(scheme, task.problem, sample, task.clients, engine)
    sampling = scheme.sampling
    delta = config.scheme.delta or DELTA
    drawn = entry.pooled or entry.has("sampling")
    settled = {
        "data": {"clients": task.clients, **_public(config, data, ready.defaults, ready.public)},
        "model": {"name": ready.model_name, "loss": loss.name},
        "scheme": {
            "name": entry.name,
            "clip": clip,
            "quantile": quantile,
            "noise": noise,
            "delta": delta,
            **{key: getattr(settings, key) if entry.has(key) else None for key in OWN},
            **_bits(entry, scheme, task),
            # What is usual for the scheme is written where it is off, too: the file alone is the same run.
            "average": scheme.average if scheme.average or "average" in entry.usual else None,
            "blocks": settings.blocks if scheme.joint or "blocks" in entry.usual else None,
            "downlink_bits": None if scheme.baseline else scheme.downlink.bits,
            **ready.front.settings,
        },
        "secure": _secure(scheme),
        "train": {
            "rate": settings.rate if entry.has("rate") else None,
            "steps": settings.steps if entry.has("steps") and not (settings.epochs or settings.ridge) else None,
            "epochs": settings.epochs,
            "ridge": settings.ridge,
            "batch": (settings.batch or "all") if entry.has("batch") else None,
            # A share that was not given is not written either: a resumed run is to say again where it is from.
            "balance": loss.balance,
            "batches": settings.batches if entry.level == "record" else None,
        },
        "sampling": {
            "kind": sampling.kind,
            # Of turns the cohort follows from the rounds; a scheme may have a sampling of its own.
            "cohort": round(sampling.cohort(task.clients)) if sampling.turns is None and drawn else None,
            "passes": sampling.turns.passes if sampling.turns is not None and drawn else None,
        },
        "run": {"engine": engine.kind, "canaries": config.run.canaries if canaries is None else len(canaries.included)},
    }
    tables = {table: getattr(config, table).model_copy(update=keys) for table, keys in settled.items()}
    config = config.model_copy(update=tables)
    files = tuple(Path(n.rpartition(":")[0]) for n in population.named(config) if ".py:" in n)
    notes = (*data.notes, *notes, *noted)
    known, front = about(ready), ready.front
    return Experiment(config, task, scheme, engine, notes, files, entry.published, False, data, known, front, canaries)


def _canaries(config: Config, entry: Entry, task: Registered) -> Canaries | None:
    """Of what is protected, clients or records; of clients where nothing is. None where these are too few."""
    count, seed = config.run.canaries, config.run.seed
    if count is None:
        return None
    if not isinstance(task, Task):
        raise Mistake("run.canaries are simulated: leave them out of a federation")
    if entry.example.baseline:
        raise Mistake(f"{entry.name} sends nothing that a canary could show in: leave the audit out")
    there = int(task.sizes.sum()) if entry.level == "record" else task.clients
    count = count or min(1000, max(100, there // 20), there // 10)
    if count < FEWEST and not config.run.canaries:
        return None
    return CanaryRecords.of(task, count, seed) if entry.level == "record" else CanaryClients(seed, count, task.clients)


def _public(config: Config, data: DataSet, defaults: DataDefaults, batch: Samples | None) -> dict[str, Any]:
    if batch is None:
        return {"public": None}
    return {"public": config.data.public or defaults.public, "public_size": population.public_size(config, data)}


def _secured(config: Config, entry: Entry, scheme: Scheme, task: Registered) -> Scheme:
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


def _bits(entry: Entry, scheme: Scheme, task: Registered) -> dict[str, int]:
    """What an integer takes, where the user could have chosen it."""
    modulus = scheme.specs(scheme.coordinates.count(task.layout))[-1].form.modulus
    return {"bits": modulus} if modulus is not None and not entry.has("bits") else {}


def _clip(config: Config, entry: Entry, settings: Settings, task: Registered, seed: PublicSeed) -> float | str:
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
