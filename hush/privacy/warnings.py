"""Where a specialist would raise an eyebrow: sentences that follow from what a card says, and from nothing else."""

from collections.abc import Mapping
from typing import Any

from hush.privacy.shown import brief

CLIENTS = 100  # fewer than these hide one of them badly
UPLOAD = 20.0  # epsilon of a single upload, where nothing hides uploads
LARGE = 10.0  # epsilon of a guarantee that promises little
_WHO = {
    "model": "whoever receives the models",
    "server": "the server",
    "colluding": "the server with colluding clients",
}


def warnings(card: Mapping[str, Any]) -> list[str]:
    """What is wrong, why it matters and what to do about it, a sentence each; empty where nothing is.

    A card of what is only planned may lack what a run brings: adversaries, result, clipping.
    """
    private = card["guarantee"] != "none"
    found = [_few(card), _delta(card), _large(card), _upload(card)] if private else []
    return [sentence for sentence in (*found, _result(card), _clipping(card)) if sentence is not None]


def _few(card: Mapping[str, Any]) -> str | None:
    if card["level"] != "client" or card["population"] >= CLIENTS:
        return None
    return (
        f"{card['population']} clients are few to hide one of them among: noise that hides a whole client drowns what"
        f" fewer than about {CLIENTS} have in common; let more clients take part, or protect single records in place of"
        " clients (hush schemes lists those that do)"
    )


def _delta(card: Mapping[str, Any]) -> str | None:
    number, delta = card["units"], card["delta"]
    if number < 1 or delta * number < 1:
        return None
    return (
        f"delta {delta:g} is not below 1/{number}, one over the number of {card['level']}s: to reveal one of them whole"
        f" in every run would be allowed by it; give a delta far below, at most {10.0 ** -len(str(number)):g}"
    )


def _large(card: Mapping[str, Any]) -> str | None:
    spent = {one["name"]: one["epsilon"] for one in card.get("adversaries", ())}
    above = [view for view in _WHO if _above(spent.get(view), LARGE)]
    if not above:
        return None
    said = " and ".join(f"{brief(spent[view])} against {_WHO[view]}" for view in above)
    once = card["level"] == "client" and "model" not in above
    remedy = "ask for a smaller epsilon" + (", or let each client take part once (--sampling once)" if once else "")
    return (
        f"epsilon is {said}, above {LARGE:g}: so large a number promises little, since odds may change by"
        f" e^{LARGE:g}, more than 20,000 times; {remedy}"
    )


def _upload(card: Mapping[str, Any]) -> str | None:
    spent = {one["name"]: one["epsilon"] for one in card.get("adversaries", ())}
    if (
        "upload" not in spent
        or card.get("secure")
        or not (spent["upload"] == "none" or _above(spent["upload"], UPLOAD))
    ):
        return None
    what = "no guarantee" if spent["upload"] == "none" else f"epsilon {brief(spent['upload'])}, above {UPLOAD:g}"
    return (
        f"a single upload has {what}, and no secure sum hides it: whoever reads it, the server or the line, may learn"
        " nearly all that it says; add --secure, so that the server sees the sum alone"
    )


def _result(card: Mapping[str, Any]) -> str | None:
    found = card.get("result")
    if found is None or (found["value"] > found["needed"] if found["larger"] else found["value"] < found["needed"]):
        return None
    return (
        f"{found['measure']} {found['value']:.3f} on the test rows is not better than always giving the same answer,"
        f" {found['guess']:.3f}, by two standard errors ({found['needed']:.3f}): the model has learnt nothing of use;"
        " try another rate, more rounds or larger cohorts before a larger epsilon, which costs privacy"
    )


def _clipping(card: Mapping[str, Any]) -> str | None:
    found = card.get("clipping")
    if found is None or found["first"] != found["last"] or found["first"] == "some":
        return None
    of, what = ("clients made up of test rows", "updates") if card["level"] == "client" else ("test rows", "gradients")
    tried = (
        f"the clip bound {found['bound']:.3g} clips {found['first']} of {found['trials']} {of}, by the first weights"
    )
    more = ", or --clip adaptive" if card["level"] == "client" and not found.get("adaptive") else ""
    if found["first"] == "nobody":
        return (
            f"{tried} and by the last: the noise is proportional to the bound, and so larger than it need be; give a"
            f" smaller --clip{more}"
        )
    if found["tuned"]:
        return None
    if found.get("adaptive"):
        return (
            f"{tried} and by the last: a bound that adapts has not come as far as the {what} yet; take more rounds, or"
            " give a number for --clip"
        )
    return (
        f"{tried} and by the last: all {what} are cut to one length, so that the bound, not the training rate, decides"
        " how far a round moves; give a larger --clip, or keep it and choose the rates for it"
    )


def _above(value: float | str | None, bound: float) -> bool:
    return not isinstance(value, str) and value is not None and value > bound
