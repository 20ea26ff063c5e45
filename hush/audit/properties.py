"""From what one client sends in a round: does its data hold a property? (Melis et al. 2019.)

The attacker has rows of its own. It deals them to clients that hold the property and to clients that do not, and has
them train by the scheme's own client code, at the public weights of the round. A linear classifier learns from what
they send, and is scored on clients of which the attacker has no row.

Paper C, section 3.2, tried "the inference attack described in [29]" on FL-STANDARD and FL-SIGN (task: gender on LFW;
property: whether a group of a client's individuals is black), and reports that its accuracy "dropped from 92% for
FL-STANDARD to 50% for FL-SIGN". [29] is Melis et al., with a classifier of another kind than ours. The paper does not
say what its classifier was trained on, so two attackers are distinguished here. With `learned=` it learns from the
uploads of another scheme, say plain updates, and is shown signs: how we read the paper's figure. Without it, it learns
from what the attacked scheme sends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.audit.bounds import Floats
from hush.audit.chunks import Say
from hush.audit.curves import Curve
from hush.audit.dealing import Deal, Group
from hush.audit.linear import Linear
from hush.core.integers import centred
from hush.core.memory import Kept, Memory
from hush.core.plain import Sum
from hush.core.plans import planned
from hush.core.scheme import Scheme
from hush.core.spec import Asked, Plan, Total, Uploads
from hush.core.state import State
from hush.core.task import Block, Problem
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.models.weights import flatten
from hush.parts.trainers.cohort import together
from hush.random.draws import Draws
from hush.random.seeds import PublicSeed, SecretSeed

View = Literal["upload", "sum", "model"]


@dataclass(frozen=True)
class Inference:
    """How often the attacker was right about clients it had not seen, and how well its scores distinguish them.

    `chance` is the accuracy of who always gives the more frequent answer, `error` the standard error that an AUC of 0.5
    has with so many clients.
    """

    accuracy: float
    auc: float
    chance: float
    error: float


def infer(
    scheme: Scheme,
    problem: Problem,
    attacker: Group,
    targets: Group,
    *,
    view: View = "upload",
    cohort: int = 100,
    learned: Scheme | None = None,
    state: State | None = None,
    seed: int = 0,
) -> Inference:
    """Learn from the attacker's clients, and judge the targets, of one round.

    view     upload: what the target sends, as a server without a secure sum sees it. sum: the sum over a cohort of
             which the target is one, the others being others of its group. model: what the server makes of that sum.
    cohort   how many clients the shares of noise are sized for, and how many are in a sum
    learned  the scheme whose uploads the classifier learns from; the attacked one if not given
    state    of the run before this round; the first round if not given

    The seat of a client, where the scheme has seats, is known: the attacker has its clients take the target's.
    """
    if cohort < 1:
        raise Mistake(f"cohort={cohort} must be at least 1: the clients of a round")
    plan = _plan(scheme, problem, cohort, state, seed)
    # The attacker knows what is public, and draws for itself whatever the targets draw in secret.
    own, theirs = (SecretSeed.simulated(_number(seed, who)) for who in ("attacker", "targets"))
    rehearsed = plan if learned is None else _plan(learned, problem, cohort, state, seed)
    lessons = _Watch(learned or scheme, problem, rehearsed, view, own).rows(attacker)
    seen = _Watch(scheme, problem, plan, view, theirs).rows(targets)
    if lessons.shape[1] != seen.shape[1]:
        raise Mistake(
            f"learned sends {lessons.shape[1]} numbers and the attacked scheme {seen.shape[1]}: give one of the same"
        )
    return judged(Linear.fit(lessons, attacker.holds).scores(seen), targets.holds)


def repeated(
    scheme: Scheme,
    problem: Problem,
    data: Samples,
    trait: npt.NDArray[np.bool_],
    deal: Deal,
    *,
    repetitions: int = 5,
    view: View = "upload",
    cohort: int = 100,
    learned: Scheme | None = None,
    seed: int = 0,
    say: Say | None = None,
) -> tuple[Inference, ...]:
    """The attack with rows, clients and draws anew each time; `trait` says which rows have what the property is of."""
    found = []
    for number in range(seed, seed + repetitions):
        attacker, targets = deal.groups(data, trait, number)
        found.append(infer(scheme, problem, attacker, targets, view=view, cohort=cohort, learned=learned, seed=number))
        if say is not None:
            say(len(found), repetitions)
    return tuple(found)


def judged(scores: Floats, holds: npt.NDArray[np.bool_]) -> Inference:
    """Of scores above 0 for the property, below it against."""
    curve = Curve.of(scores[holds], scores[~holds])
    share = float(holds.mean())
    return Inference(float(((scores > 0) == holds).mean()), curve.auc, max(share, 1 - share), curve.error)


@dataclass(frozen=True)
class _Watch:
    """What an adversary sees of a group's clients, each as the target of a round of its own."""

    scheme: Scheme
    problem: Problem
    plan: Plan
    view: View
    secret: SecretSeed

    @property
    def crowd(self) -> int:
        """How many clients are behind one row that is seen."""
        return 1 if self.view == "upload" else round(self.plan.cohort)

    def rows(self, group: Group) -> Floats:
        """One row of numbers for each client of which it is known whether it holds the property."""
        if self.crowd - 1 > group.others:
            raise Mistake(f"{group.others} others do not fill a cohort of {self.crowd}: deal more, or lower cohort")
        return np.concatenate([self._row(*one) for one in self._uploads(group)]).astype(np.float64)

    def _uploads(self, group: Group) -> Iterator[tuple[Tensor, Tensor, npt.NDArray[np.int64]]]:
        """Uploads of whole rounds, as many as train together: (rounds, clients, numbers), records, and names."""
        crowd, clients = self.crowd, len(group.holds)
        many = max(1, together(self.problem, group.population.data, self.plan.trained) // crowd)
        company = self.secret.generator("company")
        for first in range(0, clients, many):
            targets = range(first, min(first + many, clients))
            others = [clients + company.permutation(group.others)[: crowd - 1] for _ in targets]
            places = np.array([[target, *beside] for target, beside in zip(targets, others, strict=True)], np.int64)
            names = np.arange(first * crowd, (first + len(places)) * crowd)
            kept = Kept(Memory(), tuple(names.tolist()))
            draws = Draws(self.secret, kept.names)
            block = Block(self.problem, group.population, places.reshape(-1), draws, kept)
            seats = self.plan.seats
            own = self.plan if seats is None else replace(self.plan, seats=np.tile(seats[:crowd], len(places)))
            sent = self.scheme.client(block, own)
            yield sent.reshape(len(places), crowd, -1), block.sizes.reshape(len(places), crowd), names[::crowd]

    def _row(self, sent: Tensor, sizes: Tensor, names: npt.NDArray[np.int64]) -> Floats:
        """What is seen of each round."""
        if self.view != "upload":
            found = [self._sum(*one) for one in zip(sent, sizes, names.tolist(), strict=True)]
            return torch.stack(found).numpy()
        spec, rows = self.scheme.specs(self.scheme.width(self.plan), self.plan.clip)[-1], sent[:, 0].double()
        if spec.form.modulus is not None:
            rows = centred(rows, spec.form.modulus)
        if spec.precision is not None:  # a sign and a bit in one number: the sign also by itself
            rows = torch.cat([rows.sign(), rows], dim=1)
        return rows.numpy()

    def _sum(self, rows: Tensor, sizes: Tensor, name: int) -> Tensor:
        spec, plan = self.scheme.specs(self.scheme.width(self.plan), self.plan.clip)[-1], self.plan
        # Masks cancel: what a secure sum opens is the sum. Votes are not sums.
        aggregator = Sum() if spec.precision is None else self.scheme.aggregator
        total: Total = aggregator.combine([Uploads(rows, sizes, plan.seats)], Asked(spec.size, spec.form))
        if self.view == "model":
            # What the server draws is named by the round: it has a seed for each.
            secret = SecretSeed.simulated(int.from_bytes(self.secret.key("server", name)[:8], "little"))
            return self.scheme.server(plan, total, secret).body.double()
        return total.body if spec.form.modulus is None else centred(total.body, spec.form.modulus).double()


def _plan(scheme: Scheme, problem: Problem, cohort: int, state: State | None, seed: int) -> Plan:
    """The order of the round, as the loop gives it."""
    public, number = PublicSeed(seed), 1 if state is None else state.round + 1
    weights = flatten(problem.model) if state is None else state.weights
    live = None if state is None else state.live
    if live is None or not scheme.fixed:
        if scheme.poll(problem.layout) is not None:
            raise Mistake("clients vote on the coordinates of this scheme: give the state of a run of it")
        live = scheme.coordinates.draw(problem, public, 0 if scheme.fixed else number, None)
    clip = None if state is None else state.clip
    return planned(scheme, problem, public, number, weights, live, drawn=cohort, mean=cohort, clip=clip)


def _number(seed: int, who: str) -> int:
    return int(PublicSeed(seed).generator("property inference", who).integers(2**62))
