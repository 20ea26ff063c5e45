"""What a client insists on, checked by itself before it trains."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.errors import Mistake, Refused
from hush.federation.charter import Charter
from hush.parts.stages.clip import LEAST
from hush.privacy.events import Event

VIEWS = ("server", "colluding", "upload")
DELTA = 1e-5
MOST = 1e30  # of a bound that moves


@dataclass(frozen=True)
class Policy:
    """A client's own minimum. What is not said is not asked for.

    charter   the digest of the one charter that it agreed to
    noise     the least noise multiplier of a sum, against the server; that of its own upload where sums are plain
    share     the least multiplier of the noise in its own upload
    secure    only sums, of which the server learns no summand
    clients   the fewest clients that a secure sum may be opened over
    corrupt   the least fraction of a cohort that may collude with the server without opening more than one sum
    rounds    the most rounds of training that it answers
    epsilon   the most that it spends over all rounds of its ledger, by view (server, colluding, upload), at its `delta`

    All but the budget is decided once, for every cohort that the charter's sampling can draw: a refusal that depended
    on the cohort would show its size to whoever sees the models.
    """

    charter: str | None = None
    noise: float = 0.0
    share: float = 0.0
    secure: bool = False
    clients: int = 0
    corrupt: float = 0.0
    rounds: int | None = None
    epsilon: Mapping[str, float] = field(default_factory=dict)
    delta: float = DELTA

    def __post_init__(self) -> None:
        for view in self.epsilon:
            if view not in VIEWS:
                raise Mistake(f"a client cannot hold a server to the {view} view: give epsilon for {', '.join(VIEWS)}")
        if not 0 < self.delta < 1:
            raise Mistake(f"delta={self.delta} must be between 0 and 1: it is that of the client's own budget")

    def agree(self, charter: Charter, scheme: Scheme) -> None:
        """Refuse a federation before it begins."""
        if self.charter is not None and charter.digest != self.charter:
            raise Refused(f"the charter {charter.digest[:16]} is not {self.charter[:16]}, which this client agreed to")
        secrecy = scheme.aggregator.secrecy
        if self.secure and secrecy is None:
            raise Refused("this client demands a secure sum, and the charter's scheme has none")
        if self.secure and secrecy is not None and secrecy.servers != 1 and not charter.second:
            raise Refused("the charter names no second server, for which a half of each upload is sealed")
        if self.corrupt and (secrecy is None or secrecy.corrupt < self.corrupt):
            found = "no secure sum" if secrecy is None else f"a secure sum against {secrecy.corrupt:.0%}"
            raise Refused(f"the charter has {found}, and this client asks for {self.corrupt:.0%} that may collude")
        if self.rounds is not None and charter.rounds > self.rounds:
            raise Refused(f"the charter has {charter.rounds} rounds, and this client answers {self.rounds} at most")
        if self.clients and secrecy is None:
            raise Refused(f"a plain sum may be taken of one client, and this client asks for {self.clients}")
        least = smallest(scheme, charter.population)
        fewest = scheme.aggregator.threshold(least, round((1 - scheme.tolerance) * least, 9))
        if self.clients > fewest:
            raise Refused(f"sums may be opened over {fewest} clients, and this client asks for {self.clients}")
        if self.epsilon and scheme.level is None:
            raise Refused("this client has a budget, and the charter's scheme has no guarantee")
        if self.epsilon and scheme.uncovered is not None:
            raise Refused(f"this client has a budget, and no noise covers {scheme.uncovered}")

    def check(self, charter: Charter, scheme: Scheme, plan: Plan) -> None:
        """Refuse a plan that protects less than the charter.

        The share of noise that a client adds shrinks with the floor, which comes from the server: a cohort has no more
        clients than the charter's sampling draws, or than are registered where that is random. Where sums are secure
        the floor is a lower bound of their threshold; elsewhere the upload view holds whatever the server says.
        """
        if plan.round > charter.rounds:
            raise Refused(f"round {plan.round} is past the {charter.rounds} of the charter")
        expected = scheme.sampling.cohort(charter.population)
        drawn = largest(scheme, charter.population)
        if plan.floor > (1 - plan.spare) * drawn + 1e-6:
            raise Refused(
                f"round {plan.round} has noise shares for {plan.floor:g} clients, and cohorts of {drawn} at most lose"
                f" {plan.spare:.0%}: refused"
            )
        if not math.isclose(plan.cohort, expected, rel_tol=1e-9):
            raise Refused(f"round {plan.round} divides by {plan.cohort:g}, and the charter's cohorts have {expected:g}")
        if scheme.source is not None and scheme.source.shared and plan.floor < 1 - plan.spare - 1e-9:
            raise Refused(f"round {plan.round} has noise shares for {plan.floor:g} clients, fewer than one: refused")
        moves = scheme.specs(scheme.width(plan))[-1].clip is not None
        if (plan.clip is not None) != moves or (plan.clip is not None and not LEAST <= plan.clip <= MOST):
            raise Refused(
                f"round {plan.round} has a bound of {plan.clip}, which the charter's scheme does not: refused"
            )

    def weigh(self, event: Event | None) -> None:
        """Refuse a federation of which a round's noise may be worth less than this client asks for."""
        noise, share = 0.0, 0.0
        if event is not None:
            noise, share = event.noise if event.server is None else event.server, event.share
        if noise < self.noise:
            raise Refused(f"the noise is worth {noise:g} against the server, and this client asks for {self.noise:g}")
        if share < self.share:
            raise Refused(f"the noise of an upload is worth {share:g}, and this client asks for {self.share:g}")


def largest(scheme: Scheme, population: int) -> int:
    """The largest cohort that an honest server has: beyond six deviations a random one is refused."""
    expected = scheme.sampling.cohort(population)
    if scheme.sampling.kind != "poisson":
        return math.ceil(expected)
    return min(population, math.ceil(expected + 6 * math.sqrt(expected) + 6))


def smallest(scheme: Scheme, population: int) -> int:
    """The smallest cohort that is not aborted by the sampling's own floor, whose cost is in the guarantee."""
    if scheme.sampling.kind == "poisson":
        return scheme.sampling.floor
    return max(scheme.sampling.floor, math.floor(scheme.sampling.cohort(population)))
