"""Rounds of a scheme's own client and server code, with one client and without it, as each adversary sees them.

All clients send zeros but the first, whose update is far longer than any bound. What the others would send beside is
known to the attacker, who takes it off the sum: against an adversary who knows all but one client nothing is worse.
Of a trial's rounds the client's update has one sign in the first and the other one in the second, so that noise that is
used twice cancels. From the second round on some of the others drop out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from hush.audit.trials import Given, Trials, Turn, World
from hush.core import sums
from hush.core.integers import centred
from hush.core.memory import Kept, Memory
from hush.core.plain import All, Sum
from hush.core.plans import planned
from hush.core.protocols import Stage
from hush.core.scheme import Scheme
from hush.core.spec import ClientContext, Plan, Spec, Total, Uploads
from hush.core.task import Block, Enrolled, Population, Problem
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.privacy.events import replaced
from hush.privacy.views import Participation, views
from hush.random.draws import Draws
from hush.random.seeds import PublicSeed, SecretSeed

EXCESS = 1000.0  # how long the client's update is
RECORDS = 10  # of the client, where others have one: its weight must not show
LOST = 0.25  # of a cohort that drops out, where it need not be declared


@dataclass(frozen=True)
class Worlds:
    """A scheme with a cohort of a few clients and updates of a few numbers.

    size    of an update, before the stages
    cohort  how many clients are drawn, the one included
    clients how many are registered
    """

    scheme: Scheme
    size: int
    cohort: int
    clients: int = 6000

    def __post_init__(self) -> None:
        if self.size < 1 or self.cohort < 1:
            raise Mistake(f"size={self.size} and cohort={self.cohort} must be at least 1")
        self.specs(None)

    @cached_property
    def present(self) -> World:
        """The client takes part."""
        return World(True, 1.0)

    def absent(self, view: str) -> World:
        """The world without it, as the guarantee of this view has it: see hush.privacy.neighbours."""
        kind = self.scheme.sampling.kind
        if replaced(kind) == 2:
            return World(True, -1.0)
        return World(view != "model" or kind != "poisson" or not self.scheme.private, 0.0)

    @cached_property
    def views(self) -> tuple[str, ...]:
        """Who there is: a single upload is nobody's to read in a secure sum, where colluding clients are to be met."""
        shared = self.scheme.source is not None and self.scheme.source.shared
        if not self.scheme.secure:
            return ("model", "server", "upload")
        return ("model", "server", "colluding") if self.helpers and shared else ("model", "server")

    @property
    def helpers(self) -> int:
        """How many clients collude with the server."""
        return self.scheme.aggregator.colluding(self.cohort)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The rounds of a trial: two, or one without noise; all of a schedule whose noise depends on other rounds'."""
        source, schedule = self.scheme.source, self.scheme.sampling.turns
        if source is not None and source.correlated and schedule is not None:
            period = schedule.rounds // schedule.passes
            signs = [(-1.0) ** (n // period) if n % period == 0 else 0.0 for n in range(schedule.rounds)]
            return tuple(Turn(number, sign, 0) for number, sign in enumerate(signs, 1))
        if not self.scheme.private:
            return (Turn(1, 1.0, 0),)
        lost = self.lost if self.lost < self.cohort - self.helpers - 1 else 0
        return Turn(1, 1.0, 0), Turn(2, -1.0, lost)

    @property
    def lost(self) -> int:
        """As many as a round can lose without an abort."""
        if not self.scheme.secure:
            return int(LOST * self.cohort)
        return int(self.scheme.tolerance * self.cohort) if self.scheme.sampling.dropout else 0

    def specs(self, clip: float | None) -> tuple[Spec, ...]:
        """Before each stage, and after the last."""
        return self.scheme.specs(self.size, clip)

    def plan(self, turn: Turn, drawn: int) -> Plan:
        """As the loop makes it, for a cohort of so many."""
        scheme, weights = replace(self.scheme, coordinates=All()), torch.zeros(self.size)
        return planned(
            scheme, self._problem, PublicSeed(0), turn.number, weights, None, drawn=drawn, mean=float(self.cohort)
        )

    def stated(self, delta: float) -> dict[str, float | None]:
        """The epsilon of a trial that hush states to each view, by its own ledger; None: no guarantee."""
        task, books, events = self._enrolled, Participation(self.cohort), []
        for turn in self.turns:
            if not turn.sign:
                continue
            event = self.scheme.event(self.plan(turn, self.cohort), task, present=self.cohort - turn.lost)
            if event is None:
                return dict.fromkeys(self.views)
            events.append(replace(event, rate=1.0, slack=0.0))  # the attacker knows that the client was drawn
            books.add(events[-1], [0])
        found = views(events, books, delta, "pld", self.scheme.secure)
        return {view: value if isinstance(value := found[view], float) else None for view in self.views}

    @cached_property
    def update(self) -> Tensor:
        """The client's: of a random direction, so that noise that several numbers share shows."""
        x = PublicSeed(0).generator("update of an audit").standard_normal(self.size, dtype=np.float32)
        return torch.from_numpy(EXCESS * x / np.linalg.norm(x))

    def seen(self, world: World, trials: int, secret: SecretSeed, others: float = 0.0) -> Trials:
        """So many trials of a world, each with draws of its own. The others send so many times the client's update."""
        drawn = self.cohort if world.drawn else self.cohort - 1
        all_names = np.arange(trials * self.cohort).reshape(trials, self.cohort)
        names = tuple(all_names[:, self.cohort - drawn :].ravel().tolist())
        places = np.tile(np.arange(self.cohort - drawn, self.cohort), trials)
        memory = Memory()
        found: dict[str, list[Tensor]] = {view: [] for view in self.views}
        noise, added = [], []
        for turn in self.turns:
            x = (others * turn.sign * self.update).expand(trials, drawn, -1).clone()
            if world.drawn:
                x[:, 0] = world.factor * turn.sign * self.update
            block = Block(self._problem, self._population, places, Draws(secret, names), Kept(memory, names))
            plan = self.plan(turn, drawn)
            if plan.seats is not None:
                plan = replace(plan, seats=np.tile(plan.seats, trials))
            rows = replace(self.scheme, trainer=Given(x.view(-1, self.size), names)).client(block, plan)
            memory.settle()
            rows = rows.view(trials, drawn, -1)
            if world.drawn and not world.factor and self.scheme.source is not None:
                rows[:, 0] = self._silent(block.pick(range(0, trials * drawn, drawn)), plan)
            here = slice(0, drawn - turn.lost)
            released = self._released(rows[:, here], plan, secret)
            found["model"].append(released)
            found["server"].append(_summed(rows[:, here], self._modulus))
            if "upload" in found:
                found["upload"].append(rows[:, 0].double())
            if "colluding" in found:
                honest = slice(0, drawn - turn.lost - self.helpers)
                found["colluding"].append(_summed(rows[:, honest], self._modulus))
            if world == self.present:
                before = self._before(x.view(-1, self.size), block, plan).view(trials, drawn, -1)
                if self._front is not None:
                    released = self._front._released(self._noised(before, block, plan)[:, here], plan, secret)
                noise.append(released - before[:, here].sum(1, dtype=torch.float64))
                added.append(before[:, 0])
        return Trials({view: torch.cat(parts, 1) for view, parts in found.items()}, noise, added)

    def at_once(self, secret: SecretSeed) -> list[Tensor]:
        """Turn by turn, the noise of one sum as a simulation draws it, once for all clients: see hush.core.sums.

        None where each client draws its own all the same. Those who drop out are completed as ever.
        """
        scheme, source = self.scheme, self.scheme.source
        first, front, found = sums.addable(scheme), (self._front or self).scheme, []
        if source is None or first is None or first > scheme.stages.index(source):
            return []
        for turn in self.turns:
            plan, present = self.plan(turn, self.cohort), self.cohort - turn.lost
            total = Total(sums.together(front, plan, present, secret)[0], present, float(present))
            found.append(front.released(plan, total, secret).body.double())
        return found

    def _silent(self, block: Block, plan: Plan) -> Tensor:
        """Of clients that add nothing to the sum but their noise: not even to the count of an adaptive clip."""
        first, specs = len(self._before_source), self.specs(plan.clip)
        x = torch.zeros(
            len(block), specs[first].size, dtype=torch.int32 if specs[first].form.modulus is not None else torch.float32
        )
        for stage, spec in zip(self.scheme.stages[first:], specs[first:], strict=False):
            x = stage.encode(x, ClientContext(spec, plan, block.sizes, block.draws, block.memory))
        return x

    @property
    def _before_source(self) -> tuple[Stage, ...]:
        source = self.scheme.source
        return self.scheme.stages if source is None else self.scheme.stages[: self.scheme.stages.index(source)]

    def odd(self, secret: SecretSeed) -> Tensor:
        """What clients add whose updates are not as others: long, tiny, not finite, one number alone, none."""
        spike, alike = torch.zeros(self.size), torch.ones(self.size)
        spike[-1] = 1.0
        rows = [a * row for a in (1e38, 1e6, 1.0, 1e-6, 1e-38, 0.0) for row in (spike, alike, -alike, self.update)]
        rows += [torch.where(spike > 0, value, alike) for value in (torch.inf, -torch.inf, torch.nan)]
        x, names = torch.stack(rows), tuple(range(len(rows)))
        plan = self.plan(self.turns[0], len(rows))
        places = np.zeros(len(rows), np.int64)
        block = Block(self._problem, self._population, places, Draws(secret, names), Kept(Memory(), names))
        return self._before(x, block, plan)

    def _before(self, x: Tensor, block: Block, plan: Plan) -> Tensor:
        """What the clients add to the sum, in front of the noise; the same draws as in the upload itself."""
        x = x.clone()
        for stage, spec in zip(self._before_source, self.specs(plan.clip), strict=False):
            x = stage.encode(x, ClientContext(spec, plan, block.sizes, block.draws, block.memory))
        return x

    @cached_property
    def _front(self) -> "Worlds | None":
        """As far as the source, where stages are behind it: they may scale sum and noise alike. The plan is not its."""
        source, stages = self.scheme.source, self.scheme.stages
        if source is None or source is stages[-1]:
            return None
        stages = stages[: stages.index(source) + 1]
        return replace(self, scheme=replace(self.scheme, stages=stages, aggregator=Sum()))

    def _noised(self, before: Tensor, block: Block, plan: Plan) -> Tensor:
        """The rows with the noise of their clients, by the same draws as in the uploads themselves."""
        source, number = self.scheme.source, len(self._before_source)
        assert source is not None
        spec, rows = self.specs(plan.clip)[number], before.reshape(-1, before.shape[-1]).clone()
        found = source.encode(rows, ClientContext(spec, plan, block.sizes, block.draws, block.memory))
        return found.view(*before.shape[:2], -1)

    def _released(self, rows: Tensor, plan: Plan, secret: SecretSeed) -> Tensor:
        """What the server releases in each trial.

        A Source that sends as many numbers as it gets treats all alike, and then the trials of a block are one long sum
        to it: one round of a large model, in place of many small ones. Else each trial is decoded by itself, with draws
        of its own.
        """
        source, specs = self.scheme.source, self.specs(plan.clip)
        if source is not None and source is self.scheme.stages[-1] and specs[-1].size == specs[-2].size and self._adds:
            found = _summed(rows, self._modulus)
            total = Total(found.flatten(), rows.shape[1], self._records(rows))
            return self.scheme.released(plan, total, secret).body.double().view(found.shape)
        own = (SecretSeed.simulated(int.from_bytes(secret.key("trial", t)[:8])) for t in range(len(rows)))
        bodies = [self.scheme.released(plan, *one).body for one in zip(self._totals(rows, plan), own, strict=False)]
        return torch.stack(bodies).double()

    def _totals(self, rows: Tensor, plan: Plan) -> Iterator[Total]:
        if self._adds:
            for body in _summed(rows, self._modulus):
                yield Total(body, rows.shape[1], self._records(rows))
            return
        members = np.arange(rows.shape[1])
        asked = self.scheme.asked(plan, b"", members, SecretSeed.simulated(0), lambda *_: None)
        sizes, seats = self._population.split.sizes, None if plan.seats is None else plan.seats[: len(members)]
        for block in rows:
            yield self.scheme.aggregator.combine([Uploads(block, sizes[: len(members)], seats, members)], asked)

    @property
    def _adds(self) -> bool:
        """Whether a total is the sum of the uploads, be it a secure one."""
        return self.scheme.aggregator.adds or self.scheme.secure

    def _records(self, rows: Tensor) -> float:
        return float(self._population.split.sizes[: rows.shape[1]].sum())

    @cached_property
    def _modulus(self) -> int | None:
        return self.specs(None)[-1].form.modulus

    @cached_property
    def _problem(self) -> Problem:
        return Problem(nn.Linear(self.size, 1, bias=False), lambda output, target: output.mean())

    @cached_property
    def _population(self) -> Population:
        rows = RECORDS + self.cohort - 1
        split = Split.of([range(RECORDS), *([RECORDS + n] for n in range(self.cohort - 1))])
        return Population(Samples(torch.zeros(rows, self.size), torch.zeros(rows)), split)

    @cached_property
    def _enrolled(self) -> Enrolled:
        return Enrolled(self._problem, self._population.split.sizes, population=self.clients)


def _summed(rows: Tensor, modulus: int | None) -> Tensor:
    """The sums of the trials, of (trials, clients, numbers)."""
    if modulus is None:
        return rows.sum(1, dtype=torch.float64)
    return centred(rows.sum(1, dtype=torch.int64), modulus).double()
