"""Local training: what a client does with its own data."""

from typing import Protocol

from torch import Tensor

from hush.rng import SecretSeed
from hush.spec import Members
from hush.task import Task
from hush.trainers.balance import Balance
from hush.trainers.cohort import Engine
from hush.trainers.dpsgd import Divisor, Dpsgd
from hush.trainers.sgd import Sgd

__all__ = ["Balance", "Divisor", "Dpsgd", "Engine", "Sgd", "Trainer"]


class Trainer(Protocol):
    """Trains a block of clients from the same weights."""

    def fit(
        self,
        task: Task,
        weights: Tensor,
        live: Tensor | None,
        clients: Members,
        secret: SecretSeed,
        round: int,
        engine: Engine = Engine(),
    ) -> Tensor:
        """One row per client: what it has to say of the live coordinates (of all, where live is None).

        The rows are given away: stages change them in place.
        """
        ...
