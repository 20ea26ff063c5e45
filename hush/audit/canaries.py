"""Canaries in a training: clients that send a direction of their own, or records with a wrong label.

Half of them take part, by a coin each. An attacker scores each one, and hush.audit.onerun says what the scores prove.

Of clients, the attacker reads what every round releases, and knows all other clients' updates, as differential privacy
has it. It takes them off, and sums up how far the rest goes in a canary's direction. When the canary was drawn it does
not know, but where turns are public. Of records, it sees how much lower the loss of a canary is at the end.
"""

import math
import threading
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from hush.audit.bounds import Floats
from hush.audit.onerun import Coins, Scored
from hush.core.clients import Clients, Opening, Order
from hush.core.engine import Engine
from hush.core.protocols import Trainer
from hush.core.scheme import Scheme
from hush.core.spec import ClientContext, Members, Plan, ServerContext, Total
from hush.core.task import Block, Registered, Task
from hush.errors import Mistake
from hush.random.seeds import PublicSeed, SecretSeed

EXCESS = 1e3  # how long a canary's update is, where it is bounded: longer than any bound
MANY = 2**20  # numbers of an update, which any stage takes
FEWEST = 20  # canaries
KEPT = 2**26  # numbers of all directions that are kept in memory; more are made anew in each round


class Canaries(Protocol):
    """Canaries of a kind.

    attack    the name of the attack on them
    assumes   what it rests on, beyond fair coins; None: nothing
    watched   what is seen of them counts round by round, else in the end alone
    included  of each, whether it takes part: a coin
    note      what the card says of them
    """

    @property
    def attack(self) -> str: ...
    @property
    def assumes(self) -> str | None: ...
    @property
    def watched(self) -> bool: ...
    @property
    def included(self) -> Coins: ...
    @property
    def note(self) -> str: ...

    def trained(self, task: Task) -> Task:
        """What is trained on."""
        ...

    def trainer(self, scheme: Scheme) -> "_Directed | None":
        """What trains the clients of a run; None: the scheme's own."""
        ...

    def scored(self, seen: Floats, weights: Tensor) -> Scored:
        """Of what was seen of each round, (rounds, canaries), and the last weights."""
        ...


@dataclass(frozen=True)
class CanaryClients:
    """Some clients of a run that send a random direction of their own whenever they are drawn, or zeros: by a coin.

    Zeros with their share of the noise are, to readers of the models, a client that was never drawn. The count that an
    adaptive clip adds is not looked at.
    """

    seed: int
    count: int
    clients: int

    def __post_init__(self) -> None:
        if not FEWEST <= self.count <= self.clients:
            raise Mistake(
                f"canaries={self.count} of {self.clients} clients: an audit takes at least {FEWEST}, and no more than"
                " there are clients; have more clients, or run without the audit"
            )

    @cached_property
    def members(self) -> Members:
        """Which clients they are, in increasing order."""
        rng = PublicSeed(self.seed).generator("canaries")
        return np.sort(rng.choice(self.clients, self.count, replace=False))

    @cached_property
    def included(self) -> Coins:
        """Of each canary, whether it sends its direction."""
        return PublicSeed(self.seed).generator("coins of the canaries").random(self.count) < 0.5

    def direction(self, place: int, size: int) -> Tensor:
        """A canary's, of all weights: 1 or -1 each."""
        rng = PublicSeed(self.seed).generator("direction", place)
        bits = np.unpackbits(np.frombuffer(rng.bytes((size + 7) // 8), np.uint8), count=size)
        return torch.from_numpy(bits).to(torch.float32).mul_(2).sub_(1)

    attack: ClassVar[str] = "canary clients"
    assumes: ClassVar[str | None] = None
    watched: ClassVar[bool] = True  # round by round

    @property
    def note(self) -> str:
        """For the card."""
        return (
            f"{self.count} of the {self.clients} clients are canaries of the audit: whenever they are drawn, one half"
            " sends a random direction of its own in place of an update, and the other half zeros"
        )

    def trained(self, task: Task) -> Task:
        """What is trained on: the task as it is."""
        return task

    def trainer(self, scheme: Scheme) -> "_Directed":
        """What trains the clients of a run, these among them."""
        return _Directed(scheme, self)

    def scored(self, seen: Floats, weights: Tensor) -> Scored:
        """Of what was seen of each round, (rounds, canaries)."""
        return Scored(seen.sum(0), self.included)

    def scores(self, released: Tensor, live: Tensor | None, size: int) -> Floats:
        """How far what a round released of these coordinates goes in each canary's direction."""
        whole = released if live is None else released.new_zeros(size).index_copy_(0, live, released)
        if self.count * size <= KEPT:
            return (self._directions(size) @ whole).double().numpy()
        return np.array([float(self.direction(n, size) @ whole) for n in range(self.count)])

    def _directions(self, size: int) -> Tensor:
        """All of them, made once."""
        if size not in self._made:
            self._made[size] = torch.stack([self.direction(n, size) for n in range(self.count)])
        return self._made[size]

    @cached_property
    def _made(self) -> dict[int, Tensor]:
        return {}


@dataclass
class WithCanaries:
    """Clients of which some are canaries: their own code, but for where the update of these comes from.

    `seen` is what the attacker has of the last round, a number for each canary, or nothing.
    """

    clients: Clients
    canaries: Canaries
    seen: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing is seen of a round in which nobody was asked."""
        self.seen = np.zeros(len(self.canaries.included) if self.canaries.watched else 0)

    @property
    def enrolled(self) -> Registered:
        """The same."""
        return self.clients.enrolled

    def begin(self, terms: Opening) -> int | None:
        """The same."""
        return self.clients.begin(terms)

    def collect(self, order: Order) -> Total:
        """A round; who is no canary trains as ever."""
        plan, trainer = order.plan, self.canaries.trainer(order.scheme)
        if trainer is None:
            return self.clients.collect(order)
        self.forget()
        total = self.clients.collect(replace(order, scheme=replace(order.scheme, trainer=trainer)))
        if plan.round > 0:  # a vote before the first round is no update
            # The draws have names: the loop releases the very same.
            released = order.scheme.server(plan, total, order.secret).body
            if released.numel() == order.scheme.width(plan):  # else it is of other numbers than the weights
                rest = (released - trainer.known(plan, total, order.secret)).to(torch.float32)
                self.seen = trainer.canaries.scores(rest, plan.live, plan.weights.numel())
                if order.scheme.sampling.turns is not None:  # it is public who is in no other round
                    self.seen[~np.isin(trainer.canaries.members, order.cohort)] = 0.0
        return total


@dataclass
class _Others:
    """The sum of what the other clients add, from the threads that train them."""

    total: Tensor | float = 0.0
    lock: Any = field(default_factory=threading.Lock)

    def add(self, rows: Tensor) -> None:
        """The rows of some clients."""
        found = rows.sum(0, dtype=torch.float64)
        with self.lock:
            self.total = self.total + found


@dataclass(frozen=True)
class _Directed(Trainer):
    """Trains those who are no canaries, and gives the others' updates."""

    scheme: Scheme
    canaries: CanaryClients
    others: _Others = field(default_factory=_Others)

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        """One row per client."""
        places = np.searchsorted(self.canaries.members, block.places)
        known = self.canaries.members[np.minimum(places, self.canaries.count - 1)] == block.places
        width = plan.weights.numel() if plan.live is None else plan.live.numel()
        rows = torch.zeros(len(block), width, dtype=plan.weights.dtype)
        trained, length = np.flatnonzero(~known), EXCESS if self.scheme.private else 1.0
        if len(trained):
            rows[trained] = self.scheme.trainer.fit(block.pick(trained.tolist()), plan, engine)
            if not self.scheme.private:  # nothing would cut a row that is longer than others
                length = float(rows[trained].norm(dim=1).mean())
            self._count(rows[trained], block.pick(trained.tolist()), plan.to(trained.tolist()))
        for row in np.flatnonzero(known).tolist():
            if self.canaries.included[places[row]]:
                whole = self.canaries.direction(int(places[row]), plan.weights.numel())
                sent = whole if plan.live is None else whole[plan.live]
                rows[row] = sent * (length / float(sent.norm()))
        return rows

    @cached_property
    def _bounded(self) -> int:
        """How many stages there are up to the one that bounds a row; all where none does."""
        specs = self.scheme.specs(MANY)[1:]
        return next((n for n, spec in enumerate(specs, 1) if spec.l2 < math.inf), len(specs))

    def _count(self, x: Tensor, block: Block, plan: Plan) -> None:
        """What these clients add, as far as it is bounded."""
        specs = self.scheme.specs(x.shape[1], plan.clip)
        for stage, spec in zip(self.scheme.stages[: self._bounded], specs, strict=False):
            x = stage.encode(x, ClientContext(spec, plan, block.sizes, block.draws, block.memory))
        self.others.add(x)

    def known(self, plan: Plan, total: Total, secret: SecretSeed) -> Tensor | float:
        """The part of the others in what a round released."""
        found = self.others.total
        if isinstance(found, float):
            return found
        part, specs = replace(total, body=found), self.scheme.specs(self.scheme.width(plan), plan.clip)
        for stage, spec in reversed(list(zip(self.scheme.stages[: self._bounded], specs, strict=False))):
            part = stage.decode(part, ServerContext(spec, plan, secret))
        return part.body
