"""What the directory of a federation's run says beside a simulation's: which sites, and whose draws."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from hush.data import files
from hush.data.fetch import Say
from hush.errors import Mistake
from hush.experiment import population
from hush.experiment.config import Config
from hush.experiment.given import Given
from hush.experiment.preparing import Prepared, prepare
from hush.experiment.resolving import Experiment, resolve

FILE = "federation.json"
TOLD = "how many records each site has: told to the server, whose guarantee for records stands on it"


@dataclass(frozen=True)
class Federated:
    """Sites by name with their records (1 where these are not told), and whether draws repeat, as in a rehearsal."""

    sites: dict[str, int]
    told: bool
    simulation: bool

    @property
    def sizes(self) -> Tensor:
        """The records of each site."""
        return torch.tensor(list(self.sites.values()))

    def write(self, path: Path) -> None:
        """In a run's directory."""
        files.write(path / FILE, json.dumps(vars(self)).encode())

    def resolve(self, ready: Prepared) -> Experiment:
        """The experiment of these sites."""
        found = resolve(ready, self.sizes)
        notes = (*found.notes, TOLD) if self.told else found.notes
        return replace(found, deployed=not self.simulation, notes=notes)


def stored(path: Path) -> Federated | None:
    """That of a run's directory; None for a simulation's."""
    place = path / FILE
    if not place.exists():
        return None
    try:
        return Federated(**json.loads(place.read_text()))
    except (ValueError, TypeError):
        raise Mistake(f"{place} is damaged: restore it from a copy") from None


def prepared(config: Config, say: Say = population.quiet) -> Prepared:
    """What a server prepares: of its data only test and public rows count."""
    return prepare(config, say, Given(population.found(config.data.name, config.run.seed, "test")))


def rebuilt(path: Path, config: Config, say: Say) -> Experiment | None:
    """The experiment of a federation's directory; None for a simulation's."""
    found = stored(path)
    return None if found is None else found.resolve(prepared(config, say))
