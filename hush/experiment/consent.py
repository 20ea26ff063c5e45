"""What a site's operator reads before the site takes part: a charter in words."""

import torch

from hush.core.task import Enrolled
from hush.errors import Refused
from hush.experiment.offer import Offer
from hush.experiment.rules import Rules
from hush.federation.session import smallest_event
from hush.privacy.shown import shown
from hush.privacy.views import Participation, views

SEEN = {
    "model": "whoever sees the released models",
    "server": "the server",
    "colluding": "the server with colluding clients",
    "upload": "whoever reads this site's uploads",
}


def described(offer: Offer, rules: Rules) -> str:
    """A charter, a line for each thing that is agreed to."""
    charter, scheme, brief = offer.charter, offer.scheme, offer.brief
    secrecy = scheme.aggregator.secrecy
    if secrecy is None:
        adds = "the server sees each upload"
    else:
        adds = f"secure: the server sees sums alone, if at most {secrecy.corrupt:.0%} of a cohort collude with it"
    lines = [
        f"charter    {charter.digest}",
        f"learned    {brief.model}, {brief.loss}, on rows of shape {tuple(brief.shape)} and {brief.classes} classes",
        f"rounds     {charter.rounds} at most, cohorts of {scheme.sampling.cohort(charter.population):g} sites",
        f"protects   {f'each {scheme.level}' if scheme.level is not None else 'nobody'}",
        f"sums       {adds}",
        *_epsilons(offer),
        *([] if offer.second is None else [f"second     {offer.second}  {charter.second[:64]}"]),
        *(f"site       {name}  {key.hex()}" for name, (_, key) in zip(offer.names, offer.roster, strict=True)),
        f"scheme     {charter.scheme}",
        f"rules      {_verdict(offer, rules)}",
        f"accept it  hush client --kit ... --data ... --accept {charter.digest[:16]}",
    ]
    return "\n".join(lines)


def _epsilons(offer: Offer) -> list[str]:
    """What all rounds may spend of this site, were it drawn in each, at the charter's delta."""
    charter, scheme = offer.charter, offer.scheme
    enrolled = Enrolled(offer.problem, torch.tensor([charter.records]), offer.problem.public, charter.population)
    event = smallest_event(scheme, enrolled)
    if event is None:
        return ["epsilon    none: there is no guarantee"]
    events, joined = [event] * charter.rounds, Participation(1)
    joined.catch_up(events)
    found = views(events, joined, charter.delta, "pld")
    return [
        f"epsilon    {value if isinstance(value, str) else shown(value)} at delta {charter.delta:g} against"
        f" {SEEN.get(view, view)}"
        for view, value in found.items()
        if view in SEEN
    ]


def _verdict(offer: Offer, rules: Rules) -> str:
    """Whether this site's own rules allow it."""
    try:
        rules.check_scheme(offer.scheme)
        rules.policy.agree(offer.charter, offer.scheme)
    except Refused as why:
        return f"refused by this site's policy: {why}"
    return "allowed by this site's policy"
