"""A scheme is a value: which weights, how they train, what happens to the updates, how the server moves."""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.aggregators import Aggregator, Sum
from hush.coordinates import All, Coordinates
from hush.errors import Mistake
from hush.privacy.events import Event, Level
from hush.rng import SecretSeed
from hush.sampling import Sampling
from hush.spec import Context, Members, Plan, Spec, Total
from hush.stages import Stage, Weigh
from hush.steps import Average, Step
from hush.task import Task
from hush.trainers import Dpsgd, Engine, Trainer


@dataclass(frozen=True)
class Scheme:
    """The parts of a federated learning scheme. Any combination that passes `check` runs.

    `apart`: nothing travels, since the data lie in one place: a comparator, without bytes.
    """

    trainer: Trainer
    sampling: Sampling
    coordinates: Coordinates = All()
    stages: tuple[Stage, ...] = ()
    step: Step = Average()
    aggregator: Aggregator = Sum()
    apart: bool = False

    def specs(self, size: int, clip: float | None = None) -> list[Spec]:
        """The Spec before each stage, and after the last, for an update of `size` numbers."""
        specs = [Spec(size=size, clip=clip)]
        for stage in self.stages:
            specs.append(stage.spec(specs[-1]))
        return specs

    @property
    def level(self) -> Level | None:
        """Whom the noise protects: a whole client, one record of a client, or nobody."""
        if self.specs(1)[-1].noise is not None:
            return "client"
        return "record" if isinstance(self.trainer, Dpsgd) else None

    @property
    def private(self) -> bool:
        """Whether a guarantee stands on noise."""
        return self.level is not None

    def check(self, task: Task) -> None:
        """Refuse, before any data is touched, what cannot run or would break a guarantee."""
        self.specs(1)
        self.coordinates.check(task)
        if self.level == "client" and isinstance(self.trainer, Dpsgd):
            raise Mistake(
                "Dpsgd protects records and Noise protects clients: one ledger holds one of them; leave one out"
            )
        if self.level == "record" and any(isinstance(stage, Weigh) for stage in self.stages):
            raise Mistake("Weigh() under Dpsgd tells each client's number of records: leave it out")
        if not self.private and self.coordinates.election(task.layout) is not None:
            raise Mistake("a noisy vote does not protect updates without noise: add Clip and Noise, or take TopK")
        if isinstance(self.trainer, Dpsgd):
            self.trainer.check(task)
        whole = isinstance(self.coordinates, All) and self.specs(1)[-1].bits == 32
        if task.layout.buffers and (self.private or not whole):
            reason = (
                "its batch statistics leave the clients without noise"
                if self.private
                else "its batch statistics do not travel with a part of the weights, or with their signs"
            )
            raise Mistake(
                f"the model has buffers that training changes ({task.layout.buffers[0]}): {reason};"
                " replace BatchNorm by GroupNorm, or set track_running_stats=False"
            )
        expected = self.sampling.cohort(task.clients)
        if expected > task.clients:
            raise Mistake(f"cohort={expected:g} is larger than the population of {task.clients}: lower it")

    def width(self, plan: Plan) -> int:
        """How many coordinates an update has before the stages."""
        return plan.weights.numel() if plan.live is None else plan.live.numel()

    def client(self, task: Task, plan: Plan, clients: Members, secret: SecretSeed, engine: Engine = Engine()) -> Tensor:
        """The uploads of a block of clients, one row each: training, then the stages in order."""
        x = self.trainer.fit(task, plan.weights, plan.live, clients, secret, plan.round, engine)
        if x.untyped_storage().data_ptr() == plan.weights.untyped_storage().data_ptr():
            x = x.clone()  # stages work in place
        sizes = task.split.sizes_of(clients)
        for stage, spec in zip(self.stages, self.specs(self.width(plan), plan.clip), strict=False):
            x = stage.encode(x, Context(spec, plan, clients, sizes, secret))
        return x

    def server(self, plan: Plan, total: Total, secret: SecretSeed) -> Total:
        """The stages' other halves, in reverse order."""
        nobody = Context(Spec(0), plan, np.empty(0, np.int64), torch.empty(0), secret)
        specs = self.specs(self.width(plan), plan.clip)
        for stage, spec in reversed(list(zip(self.stages, specs, strict=False))):
            total = stage.decode(total, replace(nobody, spec=spec))
        return total

    def move(self, plan: Plan, total: Total) -> Tensor:
        """The next weights: the mean divides by the planned cohort where clients are hidden, else by the survivors."""
        divisor = plan.cohort if self.level == "client" else float(total.count)
        return self.step.move(plan.weights, plan.live, total.body / divisor) if divisor else plan.weights

    def chances(self, task: Task) -> npt.NDArray[np.float64] | None:
        """Of each client, the chance of a record to be in a batch; None where records are not what is protected."""
        if not isinstance(self.trainer, Dpsgd):
            return None
        return self.trainer.chance(task.split.sizes).numpy()

    def event(self, plan: Plan, task: Task, label: str = "update") -> Event | None:
        """What this round releases, for the ledger; None where there is no noise and so no guarantee."""
        if isinstance(self.trainer, Dpsgd):
            return self.trainer.event(plan.round, self.sampling, task, label)
        spec = self.specs(self.width(plan), plan.clip)[-1]
        if spec.noise is None:
            return None
        return Event(
            round=plan.round,
            noise=spec.noise,
            share=spec.noise / math.sqrt(plan.floor or 1.0),
            rate=self.sampling.rate(task.clients),
            sampling=self.sampling.kind,
            slack=self.sampling.slack(task.clients),
            label=label,
        )
