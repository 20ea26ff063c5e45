"""A scheme is a value: which weights, how they train, what happens to the updates, how the server moves."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.core import serialise, validation
from hush.core.engine import Engine
from hush.core.integers import centred
from hush.core.plain import All, Average, Exact, Sum
from hush.core.protocols import Aggregator, Coordinates, Downlink, Sampling, Source, Stage, Step, Trainer, sent_down
from hush.core.spec import Asked, ClientContext, Length, Members, Note, Plan, ServerContext, Spec, Total
from hush.core.task import Block, Registered
from hush.errors import Mistake
from hush.models.weights import Layout
from hush.privacy.events import Event, Level
from hush.random.seeds import SecretSeed

MANY = 16  # numbers and bounds whose Specs are kept


@dataclass(frozen=True)
class Scheme:
    """The parts of a federated learning scheme. Any combination that passes `check` runs.

    `downlink`: how the weights travel to the clients. `average`: the released model is an average of the weights of all
    rounds, which keeps so much of the one before it. `baseline`: nothing travels: a comparator, without bytes. The data
    lie in one place, or else each client is `standalone` and goes on from its own weights, round after round.
    `featured`: its settings are for a linear head on public features, which the task must have.
    """

    trainer: Trainer
    sampling: Sampling
    coordinates: Coordinates = All()
    stages: tuple[Stage, ...] = ()
    step: Step = Average()
    aggregator: Aggregator = Sum()
    downlink: Downlink = Exact()
    baseline: bool = False
    standalone: bool = False
    average: float = 0.0
    featured: bool = False

    def specs(self, size: int, clip: float | None = None) -> tuple[Spec, ...]:
        """The Spec before each stage, and after the last, for an update of `size` numbers."""
        known = self._specs.get((size, clip))
        if known is None:
            specs = [Spec(size=size, clip=clip)]
            for stage in self.stages:
                specs.append(stage.spec(specs[-1]))
            if len(self._specs) >= MANY:  # of a bound that moves with the rounds
                self._specs.clear()
            known = self._specs[size, clip] = tuple(specs)
        return known

    @cached_property
    def _specs(self) -> dict[tuple[int, float | None], tuple[Spec, ...]]:
        """What is asked for several times in a round."""
        return {}

    @cached_property
    def source(self) -> Source | None:
        """The stage that protects clients by its noise."""
        return next((cast(Source, stage) for stage in self.stages if stage.level is not None), None)

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
        return self.aggregator.tolerance(self.sampling.dropout)

    @property
    def level(self) -> Level | None:
        """Whom the noise protects: a whole client, one record of a client, or nobody."""
        if self.source is not None:
            return "client"
        return self.trainer.level

    @property
    def uncovered(self) -> str | None:
        """What is used of the records that no noise covers, in words."""
        return self.trainer.uncovered

    @property
    def fixed(self) -> bool:
        """Whether the coordinates are the same in every round."""
        return self.coordinates.fixed

    @property
    def joint(self) -> bool:
        """Whether they are parts, in turn, of a set that trains as a whole."""
        return self.coordinates.joint

    @property
    def private(self) -> bool:
        """Whether a guarantee stands on noise."""
        return self.level is not None

    def check(self, task: Registered) -> None:
        """Refuse, before any data is touched, what cannot run or would break a guarantee."""
        validation.check(self, task)

    def to_json(self) -> str:
        """The scheme as canonical JSON, which `hush.from_json` reads back to an equal value."""
        return serialise.to_json(self)

    def width(self, plan: Plan) -> int:
        """How many coordinates an update has before the stages."""
        return plan.weights.numel() if plan.live is None else plan.live.numel()

    @property
    def secure(self) -> bool:
        """Whether the server sees nothing but the sum."""
        return self.aggregator.secrecy is not None

    def send(
        self,
        round: int,
        weights: Tensor,
        live: Tensor | None,
        downlink_error: Tensor | None,
        pool: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The model as clients get it, and the downlink error from then on; in round 1 they have it already."""
        if round <= 1:
            return weights, downlink_error
        place = sent_down(self.coordinates, live, pool)
        row, downlink_error = self.downlink.send(weights[place], downlink_error)
        return (
            (row, downlink_error) if isinstance(place, slice) else (weights.index_copy(0, place, row), downlink_error)
        )

    def asked(self, plan: Plan, order: bytes, cohort: Members, secret: SecretSeed, note: Note, run: str = "") -> Asked:
        """What the aggregator may know of a round, whose packed plan is `order`."""
        spec = self.specs(self.width(plan), plan.clip)[-1]
        announced = (order, plan.weights.numpy().tobytes()) if self.secure else ()
        return Asked(spec.size, spec.form, plan.round, plan.floor, announced, cohort, secret, note, run, spec.weighted)

    @property
    def spare(self) -> float:
        """The tolerated part of a cohort, which noise shares are not sized for; 0 where there are none."""
        return self.tolerance if self.tolerance < 1 else 0.0

    def poll(self, layout: Layout) -> "Scheme | None":
        """The scheme of the round before the first, in which clients vote on the coordinates, if there is one."""
        election = self.coordinates.election(layout)
        if election is None:
            return None
        trainer, stages = election
        return replace(self, coordinates=All(), trainer=trainer, stages=stages)

    @property
    def seated(self) -> bool:
        """Whether each client of a cohort must know its place in it."""
        return self.aggregator.precision is not None

    def client(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        """The uploads of a block of clients, one row each: training, then the stages in order."""
        if self.standalone:
            return self._alone(block, plan, engine)
        x = self.trainer.fit(block, plan, engine)
        if x.untyped_storage().data_ptr() == plan.weights.untyped_storage().data_ptr():
            x = x.clone()  # stages work in place
        for stage, spec in zip(self.stages, self.specs(self.width(plan), plan.clip), strict=False):
            x = stage.encode(x, ClientContext(spec, plan, block.sizes, block.draws, block.memory))
        return x

    def _alone(self, block: Block, plan: Plan, engine: Engine) -> Tensor:
        """How far each client has come from the first weights, with nobody's help."""
        if block.memory is None:
            raise Mistake("a client that trains alone must keep its weights: use a transport with client memory")
        moved = block.memory.rows(self.width(plan))
        for place, row in enumerate(moved):
            own = replace(plan, weights=plan.weights + row)
            row += self.trainer.fit(block.pick([place]), own, engine)[0]
        block.memory.note(moved)
        return moved

    def server(self, plan: Plan, total: Total, secret: SecretSeed) -> Total:
        """The stages' other halves, in reverse order."""
        return self._decoded(plan, total, secret, 0)

    def released(self, plan: Plan, total: Total, secret: SecretSeed) -> Total:
        """The total with the noise of its Source complete: whatever is decoded after it is made of this."""
        return self._decoded(plan, total, secret, 0 if self.source is None else self.stages.index(self.source))

    def _decoded(self, plan: Plan, total: Total, secret: SecretSeed, first: int) -> Total:
        """As far as stage number `first`, which is decoded last."""
        specs = self.specs(self.width(plan), plan.clip)
        modulus = specs[-1].form.modulus
        if modulus is not None:
            total = replace(total, body=centred(total.body, modulus))
        halves = list(zip(self.stages, specs, specs[1:], strict=False))
        for stage, spec, sent in reversed(halves[first:]):
            total = stage.decode(total, ServerContext(spec, plan, secret))
            if spec.l2 == math.inf and sent.l2 < math.inf:  # in the units of the bound, before what stands in front
                total = replace(total, length=self._length(total, plan, sent, specs[-1].noise))
        return total

    def _length(self, total: Total, plan: Plan, sent: Spec, noise: float | None) -> Length:
        divisor = self._divisor(plan, total) or 1.0
        single = self.source is None or not self.source.correlated  # else noise of other rounds is in it
        spread = noise * sent.l2 * math.sqrt(sent.size) / divisor if single and noise is not None else None
        mean = float(torch.linalg.vector_norm(total.body, dtype=torch.float64)) / divisor
        return Length(mean, sent.l2 if sent.clip is None else sent.clip, spread)

    def _divisor(self, plan: Plan, total: Total) -> float:
        """What the mean divides by: the planned cohort where clients are hidden, else the survivors."""
        return plan.cohort if self.level == "client" else float(total.count)

    def move(
        self, weights: Tensor, plan: Plan, total: Total, optimizer: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The next weights, and what the step keeps; `weights` are the server's own, those of the plan the clients'."""
        divisor = self._divisor(plan, total)
        if not divisor:
            return weights, optimizer
        live, mean = plan.live, total.body / divisor
        if live is None or not self.joint:
            return self.step.move(weights, live, mean, optimizer)
        # What the step keeps of a coordinate waits until its turn comes again.
        moved, kept = self.step.move(weights, live, mean, None if optimizer is None else optimizer[live])
        if kept is None:
            return moved, None
        whole = kept.new_zeros(weights.numel()) if optimizer is None else optimizer
        return moved, whole.index_copy(0, live, kept)

    def averaged(self, before: Tensor | None, weights: Tensor, round: int, live: Tensor | None = None) -> Tensor | None:
        """The average after n rounds: a <- b a + (1 - b) w, divided by 1 - b^n; None where there is none.

        Where coordinates take turns, it is of those of the round, and n is how often they were live.
        """
        b, n = self.average, self.coordinates.visits(round)
        if not b:
            return None
        if before is None:
            return weights.clone()
        kept = (b - b**n) / (1 - b**n)
        if live is None or not self.joint:
            return torch.lerp(weights, before, kept)
        return before.index_copy(0, live, torch.lerp(weights[live], before[live], kept))

    def probabilities(self, task: Registered) -> npt.NDArray[np.float64] | None:
        """Of each client, a record's probability to be in a batch; None where records are not what is protected."""
        found = self.trainer.probability(task.sizes)
        return None if found is None else found.numpy()

    def slack(self, population: int) -> float:
        """The probability that a client's presence decides whether a round aborts, and all can see it."""
        found, source = self.sampling.slack(population), self.source
        found += self.aggregator.slack(self.sampling, population, self.tolerance)
        if source is not None:
            found += source.slack(self.sampling, population)
        return min(1.0, found)

    def event(self, plan: Plan, task: Registered, label: str = "update", present: int | None = None) -> Event | None:
        """What this round releases, for the ledger; None where there is no noise and so no guarantee.

        `present`: how many clients answered, once it is known; before that, as many as the noise shares are sized for.
        """
        if self.trainer.level is not None:
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
