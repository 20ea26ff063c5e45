"""A scheme is a value: which weights, how they train, what happens to the updates, how the server moves."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.aggregators import Aggregator, BitVote, SecureSum, Sum
from hush.coordinates import All, Coordinates
from hush.errors import Mistake
from hush.memory import Memory
from hush.packing import FLOATS, Integers
from hush.privacy.events import Event, Level
from hush.rng import SecretSeed
from hush.sampling import Once, Sampling
from hush.spec import Asked, Context, Members, Note, Plan, Spec, Total
from hush.stages import (
    Coins,
    CorrelatedNoise,
    IntegerNoise,
    Sense,
    ServerNoise,
    Source,
    Stage,
    TopFeedback,
    TwoBit,
    Weigh,
    centred,
)
from hush.steps import Average, Momentum, Stay, Step
from hush.task import Task
from hush.trainers import Dpsgd, Engine, Trainer

MEMORY = 8e9  # bytes that the rows of all clients together may take in a simulation


@dataclass(frozen=True)
class Scheme:
    """The parts of a federated learning scheme. Any combination that passes `check` runs.

    `average`: the released model is an average of the weights of all rounds, which keeps so much of the one before it.
    `apart`: nothing travels: a comparator, without bytes. The data lie in one place, or else each client is `alone`
    and goes on from its own weights, round after round.
    """

    trainer: Trainer
    sampling: Sampling
    coordinates: Coordinates = All()
    stages: tuple[Stage, ...] = ()
    step: Step = Average()
    aggregator: Aggregator = Sum()
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
        """The part of a cohort that may be missing: none where the noise is in shares, else any, if not said."""
        if self.sampling.tolerance is not None:
            return self.sampling.tolerance
        return 1.0 if self.source is None or isinstance(self.source, ServerNoise | CorrelatedNoise) else 0.0

    @property
    def level(self) -> Level | None:
        """Whom the noise protects: a whole client, one record of a client, or nobody."""
        if self.source is not None:
            return "client"
        return "record" if isinstance(self.trainer, Dpsgd) else None

    @property
    def private(self) -> bool:
        """Whether a guarantee stands on noise."""
        return self.level is not None

    def check(self, task: Task) -> None:
        """Refuse, before any data is touched, what cannot run or would break a guarantee."""
        self.coordinates.check(task)
        spec = self.specs(self.coordinates.count(task.layout))[-1]
        if (spec.noise is None) != (self.source is None):
            raise Mistake("a stage states noise and not what it is worth, or the reverse: give it both, see Source")
        if self.level == "client" and isinstance(self.trainer, Dpsgd):
            raise Mistake(
                "Dpsgd protects records and Noise protects clients: one ledger holds one of them; leave one out"
            )
        if self.level == "record" and any(isinstance(stage, Weigh) for stage in self.stages):
            raise Mistake("Weigh() under Dpsgd tells each client's number of records: leave it out")
        if not self.private and self.coordinates.election(task.layout) is not None:
            raise Mistake("a noisy vote does not protect updates without noise: add Clip and Noise, or take TopK")
        if isinstance(self.sampling, Once) and self.level == "record":
            raise Mistake("Once(...) is for schemes that protect clients: take Fixed(size) with Dpsgd")
        if isinstance(self.sampling, Once) and self.coordinates.election(task.layout) is not None:
            raise Mistake("a vote on the coordinates would be one turn more for each client: take TopK with Once(...)")
        if isinstance(self.trainer, Dpsgd):
            self.trainer.check(task)
        self._check_memory(task)
        self._check_pairs(task)
        whole = isinstance(self.coordinates, All) and (spec.form, spec.size) == (FLOATS, task.layout.parameters)
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
        expected, least = self.sampling.cohort(task.clients), spec.least
        if expected < least:
            raise Mistake(
                f"cohort={expected:g} cannot fill the {least} places of two-bit with p={least + 1}: take a cohort of"
                f" at least {least}, or a smaller p"
            )
        if expected > task.clients:
            raise Mistake(f"cohort={expected:g} is larger than the population of {task.clients}: lower it")

    def _check_pairs(self, task: Task) -> None:
        """Parts of which one is nothing without the other."""
        places = [stage.places for stage in self.stages if isinstance(stage, TwoBit)]
        if places != ([self.aggregator.places] if isinstance(self.aggregator, BitVote) else []):
            raise Mistake("TwoBit(p) and BitVote(p) belong together: give both, with the same p")
        specs = self.specs(self.coordinates.count(task.layout))
        for stage, before in zip(self.stages, specs, strict=False):
            if isinstance(before.form, Integers) and not isinstance(
                stage, IntegerNoise | ServerNoise | CorrelatedNoise
            ):
                raise Mistake(f"{type(stage).__name__} cannot keep to whole numbers: put it before they are made")
            if isinstance(stage, CorrelatedNoise):
                self._check_turns(stage)
            if isinstance(stage, Coins):
                stage.check(before, self.sampling.cohort(task.clients))
        if isinstance(self.aggregator, SecureSum):
            self.aggregator.check(specs[-1].form, self.sampling.tolerance, self.sampling.floor)
            expected = self.sampling.cohort(task.clients)
            if expected < self.sampling.floor:
                raise Mistake(
                    f"cohort={expected:g} is below the {self.sampling.floor} clients that a secure sum needs: take"
                    " larger cohorts"
                )
            if self.coordinates.election(task.layout) is not None:
                raise Mistake("a vote on the coordinates is not held in whole numbers: take TopK with a public batch")
        senses = [stage for stage in self.stages if isinstance(stage, Sense)]
        sense = self.step.sense if isinstance(self.step, Momentum) else None
        if senses != ([] if sense is None else [sense]):
            raise Mistake("Sense(...) and Momentum(..., sense=...) belong together: give the very same Sense to both")
        if isinstance(self.step, Momentum) and not self.coordinates.fixed:
            raise Mistake("Momentum keeps a number for each weight, and coordinates are drawn each round: fix them")
        if not 0 <= self.average < 1:
            raise Mistake(f"average={self.average} must be in [0, 1): what the released model keeps of the one before")
        if self.alone and self.average:
            raise Mistake("each client trains alone and has a model of its own: leave average out")
        silent = self.apart and not self.stages and isinstance(self.coordinates, All) and self.aggregator == Sum()
        if self.alone != isinstance(self.step, Stay) or (self.alone and not silent):
            raise Mistake(
                "alone=True is for clients that send nothing: it goes with apart=True and Stay(), all weights, no"
                " stages, and the plain sum"
            )

    def _check_turns(self, noise: CorrelatedNoise) -> None:
        """What CorrelatedNoise counts on: rounds of a client that are a pass apart, and the same numbers each time."""
        turns = (self.sampling.rounds, self.sampling.passes) if isinstance(self.sampling, Once) else None
        if turns != (noise.rounds, noise.passes):
            raise Mistake(
                f"CorrelatedNoise(rounds={noise.rounds}, passes={noise.passes}) needs clients that keep to their turns:"
                f" give sampling=Once(cohorts={noise.rounds // noise.passes}, passes={noise.passes})"
            )
        if not self.coordinates.fixed:
            raise Mistake("CorrelatedNoise takes back earlier noise, and coordinates are drawn each round: fix them")

    def _check_memory(self, task: Task) -> None:
        """What clients keep between rounds must still fit the next one, and a simulation."""
        feeds = any(isinstance(stage, TopFeedback) for stage in self.stages)
        if feeds and not self.coordinates.fixed:
            raise Mistake("TopFeedback keeps what it did not send, and coordinates are drawn each round: fix them")
        if feeds and isinstance(self.trainer, Dpsgd):
            raise Mistake("TopFeedback carries one round's noise into another, uncounted by Dpsgd: leave it out")
        needed = 4 * self.coordinates.count(task.layout) * task.clients
        if (feeds or self.alone) and needed > MEMORY:
            raise Mistake(
                f"{task.clients} clients that each keep a row would need {needed / 1e9:.0f} GB: take fewer clients, or"
                " a smaller model"
            )

    def width(self, plan: Plan) -> int:
        """How many coordinates an update has before the stages."""
        return plan.weights.numel() if plan.live is None else plan.live.numel()

    @property
    def secure(self) -> bool:
        """Whether the server sees nothing but the sum."""
        return isinstance(self.aggregator, SecureSum)

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

    def move(self, plan: Plan, total: Total, drift: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The next weights, and what the step keeps.

        The mean divides by the planned cohort where clients are hidden, else by the survivors.
        """
        divisor = plan.cohort if self.level == "client" else float(total.count)
        if not divisor:
            return plan.weights, drift
        return self.step.move(plan.weights, plan.live, total.body / divisor, drift)

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
        if isinstance(source, Coins) and self.sampling.kind == "poisson":
            found += source.slack(population, self.sampling.rate(population), self.sampling.cohort(population))
        return found

    def event(self, plan: Plan, task: Task, label: str = "update") -> Event | None:
        """What this round releases, for the ledger; None where there is no noise and so no guarantee."""
        if isinstance(self.trainer, Dpsgd):
            return self.trainer.event(plan.round, self.sampling, task, label)
        source = self.source
        if source is None:
            return None
        before = self.specs(self.width(plan), plan.clip)[self.stages.index(source)]
        found = source.multipliers(before, plan)
        return Event(
            round=plan.round,
            noise=found.model,
            share=found.upload,
            rate=self.sampling.rate(task.clients),
            sampling=self.sampling.kind,
            slack=self.slack(task.clients),
            label=label,
            server=None if found.server == found.model else found.server,
        )
