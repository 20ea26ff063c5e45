"""A scheme is a value: which weights, how they train, what happens to the updates, how the server moves."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush import sound
from hush.aggregators import Aggregator, BitVote, SecureSum, Sum
from hush.aggregators.secure import LOST
from hush.coordinates import All, Coordinates, sent_down
from hush.downlink import Downlink, Exact
from hush.errors import Mistake
from hush.memory import Memory
from hush.packing import Integers
from hush.privacy.events import Event, Level
from hush.rng import SecretSeed
from hush.sampling import Sampling
from hush.spec import Asked, Context, Members, Note, Plan, Spec, Total
from hush.stages import Coins, Source, Stage, centred
from hush.steps import Average, Step
from hush.task import Task
from hush.trainers import Dpsgd, Engine, Trainer


@dataclass(frozen=True)
class Scheme:
    """The parts of a federated learning scheme. Any combination that passes `check` runs.

    `down`: how the weights travel to the clients. `average`: the released model is an average of the weights of all
    rounds, which keeps so much of the one before it. `apart`: nothing travels: a comparator, without bytes. The data
    lie in one place, or else each client is `alone` and goes on from its own weights, round after round.
    """

    trainer: Trainer
    sampling: Sampling
    coordinates: Coordinates = All()
    stages: tuple[Stage, ...] = ()
    step: Step = Average()
    aggregator: Aggregator = Sum()
    down: Downlink = Exact()
    apart: bool = False
    alone: bool = False
    average: float = 0.0

    def specs(self, size: int, clip: float | None = None) -> list[Spec]:
        """The Spec before each stage, and after the last, for an update of `size` numbers."""
        specs = [Spec(size=size, clip=clip)]
        for stage in self.stages:
            specs.append(stage.spec(specs[-1]))
        return specs

    @property
    def source(self) -> Source | None:
        """The stage that protects clients by its noise."""
        return next((stage for stage in self.stages if isinstance(stage, Source)), None)

    @property
    def tolerance(self) -> float:
        """The part of a cohort that noise shares are not sized for, and that a secure sum is opened without.

        If not said: all where no noise is in shares. Else none, but for a secure sum whose clients may drop out (its
        sampling declares a dropout): as many as it can lose, so that aborts are far from where cohorts end up.
        """
        if self.sampling.tolerance is not None:
            return self.sampling.tolerance
        if self.source is None or not self.source.shared:
            return 1.0
        return LOST if self.secure and self.sampling.dropout else 0.0

    @property
    def level(self) -> Level | None:
        """Whom the noise protects: a whole client, one record of a client, or nobody."""
        if self.source is not None:
            return "client"
        return "record" if isinstance(self.trainer, Dpsgd) else None

    @property
    def uncovered(self) -> str | None:
        """What is used of the records that no noise covers, in words."""
        return self.trainer.uncovered if isinstance(self.trainer, Dpsgd) else None

    @property
    def private(self) -> bool:
        """Whether a guarantee stands on noise."""
        return self.level is not None

    def check(self, task: Task) -> None:
        """Refuse, before any data is touched, what cannot run or would break a guarantee."""
        sound.check(self, task)

    def width(self, plan: Plan) -> int:
        """How many coordinates an update has before the stages."""
        return plan.weights.numel() if plan.live is None else plan.live.numel()

    @property
    def secure(self) -> bool:
        """Whether the server sees nothing but the sum."""
        return isinstance(self.aggregator, SecureSum)

    def send(
        self, round: int, weights: Tensor, live: Tensor | None, owed: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The model as clients get it, and what the server owes them from then on; in round 1 they have it already."""
        if round <= 1:
            return weights, owed
        place = sent_down(self.coordinates, live)
        row, owed = self.down.send(weights[place], owed)
        return (row, owed) if isinstance(place, slice) else (weights.index_copy(0, place, row), owed)

    def asked(self, plan: Plan, order: bytes, cohort: Members, secret: SecretSeed, note: Note) -> Asked:
        """What the aggregator may know of a round, whose packed plan is `order`."""
        spec = self.specs(self.width(plan), plan.clip)[-1]
        told = (order, plan.weights.numpy().tobytes()) if self.secure else ()
        return Asked(spec.size, spec.form, plan.round, plan.floor, told, cohort, secret, note)

    @property
    def seated(self) -> bool:
        """Whether each client of a cohort must know its place in it."""
        return isinstance(self.aggregator, BitVote)

    def client(
        self,
        task: Task,
        plan: Plan,
        clients: Members,
        secret: SecretSeed,
        engine: Engine = Engine(),
        memory: Memory | None = None,
    ) -> Tensor:
        """The uploads of a block of clients, one row each: training, then the stages in order."""
        if self.alone:
            return self._alone(task, plan, clients, secret, engine, memory)
        x = self.trainer.fit(task, plan.weights, plan.live, clients, secret, plan.round, engine)
        if x.untyped_storage().data_ptr() == plan.weights.untyped_storage().data_ptr():
            x = x.clone()  # stages work in place
        sizes = task.split.sizes_of(clients)
        for stage, spec in zip(self.stages, self.specs(self.width(plan), plan.clip), strict=False):
            x = stage.encode(x, Context(spec, plan, clients, sizes, secret, memory))
        return x

    def _alone(
        self, task: Task, plan: Plan, clients: Members, secret: SecretSeed, engine: Engine, memory: Memory | None
    ) -> Tensor:
        """How far each client has come from the first weights, with nobody's help."""
        if memory is None:
            raise Mistake("a client that trains alone must keep its weights: use a transport with client memory")
        moved = memory.rows(clients, self.width(plan))
        for row, client in zip(moved, clients, strict=True):
            own = plan.weights + row
            row += self.trainer.fit(task, own, plan.live, np.array([client]), secret, plan.round, engine)[0]
        memory.note(clients, moved)
        return moved

    def server(self, plan: Plan, total: Total, secret: SecretSeed) -> Total:
        """The stages' other halves, in reverse order."""
        nobody = Context(Spec(0), plan, np.empty(0, np.int64), torch.empty(0), secret)
        specs = self.specs(self.width(plan), plan.clip)
        if isinstance(specs[-1].form, Integers):
            total = replace(total, body=centred(total.body, specs[-1].form.width))
        for stage, spec in reversed(list(zip(self.stages, specs, strict=False))):
            total = stage.decode(total, replace(nobody, spec=spec))
        return total

    def move(
        self, weights: Tensor, plan: Plan, total: Total, drift: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The next weights, and what the step keeps; `weights` are the server's own, those of the plan the clients'.

        The mean divides by the planned cohort where clients are hidden, else by the survivors.
        """
        divisor = plan.cohort if self.level == "client" else float(total.count)
        if not divisor:
            return weights, drift
        return self.step.move(weights, plan.live, total.body / divisor, drift)

    def averaged(self, before: Tensor | None, weights: Tensor, rounds: int) -> Tensor | None:
        """The average after so many rounds: a <- b a + (1 - b) w, divided by 1 - b^rounds; None where there is none."""
        b = self.average
        if not b:
            return None
        if before is None:
            return weights.clone()
        kept = (b - b**rounds) / (1 - b**rounds)
        return torch.lerp(weights, before, kept)

    def chances(self, task: Task) -> npt.NDArray[np.float64] | None:
        """Of each client, the chance of a record to be in a batch; None where records are not what is protected."""
        if not isinstance(self.trainer, Dpsgd):
            return None
        return self.trainer.chance(task.split.sizes).numpy()

    def slack(self, population: int) -> float:
        """The chance that a client's presence decides whether a round aborts, and all can see it."""
        found, source = self.sampling.slack(population), self.source
        found += self.aggregator.slack(self.sampling, population, self.tolerance)
        if isinstance(source, Coins) and self.sampling.kind == "poisson":
            found += source.slack(population, self.sampling.rate(population), self.sampling.cohort(population))
        return min(1.0, found)

    def event(self, plan: Plan, task: Task, label: str = "update", present: int | None = None) -> Event | None:
        """What this round releases, for the ledger; None where there is no noise and so no guarantee.

        `present`: how many clients answered, once it is known; before that, as many as the noise shares are sized for.
        """
        if isinstance(self.trainer, Dpsgd):
            return self.trainer.event(plan.round, self.sampling, task, label)
        source = self.source
        if source is None:
            return None
        before = self.specs(self.width(plan), plan.clip)[self.stages.index(source)]
        answered = (plan.floor or 1.0) if present is None else max(1, present)
        found = source.multipliers(before, plan, answered)
        helpers = self.aggregator.colluding(plan.drawn) if source.shared else 0
        return Event(
            round=plan.round,
            noise=found.model,
            share=found.upload,
            rate=self.sampling.rate(task.clients),
            sampling=self.sampling.kind,
            slack=self.slack(task.clients),
            label=label,
            server=None if found.server == found.model else found.server,
            colluding=source.multipliers(before, plan, max(0.0, answered - helpers)).server if helpers else None,
        )
