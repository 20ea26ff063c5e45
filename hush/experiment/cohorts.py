"""Who takes part in the rounds of a run, as its configuration, its scheme and its data say."""

from hush.catalogue.entries import Entry
from hush.core.protocols import Sampling
from hush.errors import Mistake
from hush.experiment.population import DataDefaults
from hush.experiment.settings import Config
from hush.parts.aggregators.secure import LEAST
from hush.parts.sampling import Fixed, Once, Poisson


def sampling(config: Config, entry: Entry, population: int, defaults: DataDefaults) -> Sampling:
    """By Poisson sampling where clients are protected, with the cohort that is usual, if nothing else is said."""
    wanted = config.sampling
    usual = entry.usual.get("sampling")
    if (wanted.kind or getattr(usual, "kind", None)) == "once":
        return _turns(config, population)
    drawn = defaults.cohort if usual is None else max(1, round(usual.cohort(population)))
    cohort = wanted.cohort or (population if entry.example.standalone else min(drawn, population))
    if cohort > population:
        raise Mistake(f"cohort={cohort} is larger than the population of {population}: lower it")
    if wanted.floor > cohort:
        raise Mistake(f"floor={wanted.floor} is above the cohort of {cohort}: rounds would abort; lower it")
    found: Sampling = Fixed(cohort, wanted.floor, wanted.tolerance, wanted.dropout)
    if (wanted.kind or ("poisson" if entry.level == "client" else "fixed")) == "poisson":
        found = Poisson(cohort / population, wanted.floor, wanted.tolerance, wanted.dropout)
    return found if config.secure.mode is None else found.at_least(LEAST)


def _turns(config: Config, population: int) -> Sampling:
    """Each client in its turn: as many cohorts as there are rounds in a pass."""
    wanted, passes = config.sampling, config.sampling.passes or 1
    if config.run.rounds % passes:
        raise Mistake(f"rounds={config.run.rounds} are not {passes} equal passes: take a multiple")
    found = Once(config.run.rounds // passes, passes, config.run.seed, wanted.floor, wanted.tolerance, wanted.dropout)
    if wanted.cohort not in (None, round(found.cohort(population))):
        raise Mistake(f"cohort={wanted.cohort} does not follow from the rounds of sampling once: leave it out")
    return found if config.secure.mode is None else found.at_least(LEAST)
