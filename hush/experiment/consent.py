"""What a site's operator reads before the site takes part: a charter in words."""

import torch

from hush.core.task import Enrolled
from hush.errors import Refused
from hush.experiment.offer import Offer
from hush.experiment.rules import Rules
from hush.federation.envelopes import one_line
from hush.federation.session import smallest_event
from hush.privacy.shown import shown
from hush.privacy.views import Participation, views

COUNTED = 100_000  # rounds
SEEN = {
    "model": "whoever sees the released models",
    "server": "the server",
    "colluding": "the server with colluding clients",
    "upload": "whoever reads this site's uploads",
}


def described(offer: Offer, rules: Rules) -> str:
    """A charter, a line for each thing that is agreed to."""
    charter, scheme, brief = offer.charter, offer.scheme, offer.brief
    secrecy, task = scheme.aggregator.secrecy, f"{one_line(brief.model)}, {one_line(brief.loss)}"
    if secrecy is None:
        adds = "the server sees each upload"
    else:
        adds = f"secure: the server sees sums alone, if at most {secrecy.corrupt:.0%} of a cohort collude with it"
    lines = [
        f"charter    {charter.digest}",
        f"learned    {task}, on rows of shape {tuple(brief.shape)} and {brief.classes} classes",
        f"rounds     {charter.rounds} at most, cohorts of {scheme.sampling.cohort(charter.population):g} sites",
        f"protects   {f'each {scheme.level}' if scheme.level is not None else 'nobody'}",
        f"sums       {adds}",
        *_epsilons(offer, rules.policy.delta),
        *([] if offer.second is None else [f"second     {offer.second}  {charter.second[:64]}"]),
        *(f"site       {name}  {key.hex()}" for name, (_, key) in zip(offer.names, offer.roster, strict=True)),
        f"scheme     {charter.scheme}",
        f"rules      {_verdict(offer, rules)}",
        f"accept it  hush client --kit ... --data ... --accept {charter.digest[:16]}",
    ]
    return "\n".join(lines)


def _enrolled(offer: Offer) -> Enrolled:
    """What is public of a site with as few records as the charter allows."""
    charter, problem = offer.charter, offer.problem
    return Enrolled(problem, torch.tensor([charter.records]), problem.public, charter.population)


def _epsilons(offer: Offer, delta: float) -> list[str]:
    """What all rounds, and the vote before them, may spend of this site, were it drawn in each, at its own delta."""
    rounds, scheme, enrolled = offer.charter.rounds, offer.scheme, _enrolled(offer)
    event, poll = smallest_event(scheme, enrolled), scheme.poll(offer.problem.layout)
    vote = None if poll is None else smallest_event(poll, enrolled)
    if event is None or (poll is not None and vote is None):
        return ["epsilon    none: there is no guarantee"]
    if rounds > COUNTED:
        return [f"epsilon    not computed: {rounds} rounds are more than {COUNTED}"]
    events, joined = [event] * rounds + ([] if vote is None else [vote]), Participation(1)
    joined.catch_up(events)
    found = views(events, joined, delta, "pld")
    return [
        f"epsilon    {value if isinstance(value, str) else shown(value)} at delta {delta:g} against {SEEN[view]}"
        for view, value in found.items()
        if view in SEEN
    ]


def _verdict(offer: Offer, rules: Rules) -> str:
    """Whether this site's own rules allow it."""
    try:
        rules.check_scheme(offer.scheme)
        rules.check_columns(offer.brief.used)
        rules.policy.agree(offer.charter, offer.scheme)
        for part in filter(None, (offer.scheme, offer.scheme.poll(offer.problem.layout))):
            rules.policy.weigh(smallest_event(part, _enrolled(offer)))
    except Refused as why:
        return f"refused by this site's policy: {one_line(str(why))}"
    return "allowed by this site's policy"
