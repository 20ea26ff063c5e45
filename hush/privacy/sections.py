"""What a privacy card says, in order and in words: the terminal prints it, and the page of a run shows it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hush.privacy import sums
from hush.privacy.shown import shown

MEDIAN = "epsilon is the worst client's, median the middle one's of all registered clients"
Named = list[tuple[str, str]]


class Sections(NamedTuple):
    """Facts by name; a row for each adversary; notes on epsilons of other kinds; and lists, each with its title."""

    facts: Named
    adversaries: list[Mapping[str, Any]]
    notes: Named
    lists: list[tuple[str, list[str]]]


def sections(card: Mapping[str, Any]) -> Sections:
    """The whole card."""
    private = card["guarantee"] != "none"
    facts: Named = []
    if not private:
        facts.append(("Guarantee", f"none: {card['reason']}. No epsilon can be stated."))
        if card.get("paper"):
            facts.append(("The paper's", f"{shown(card['paper']['epsilon'])}: {card['paper']['how']}"))
    else:
        terms = f"delta {card['delta']:g}, {card['accountant']} accountant"
        facts.append(("Guarantee", f"{card['guarantee']}, {terms}"))
        facts.append(("Protected", card["protected"]))
        facts.append(("Neighbours", card.get("neighbours", card["relation"])))
    drawn = "by turns that are public" if card["sampling"] == "once" else f"{card['sampling']} sampling"
    cohort = f"{card['cohort']:g} of {card['population']} clients a round, {drawn}"
    facts.append(("Rounds", f"{card['rounds']}, {cohort}"))
    if "records" in card:
        facts.append(("Batches", _batches(card["records"])))
    joined = card["participation"]
    facts.append(("Took part", f"at most {joined['worst']} rounds, median {joined['median']:g}"))
    if card.get("secure"):
        facts.append(("Secure sum", sums.protocol(card["secure"])))
    unnoised = ("Used without noise", list(card["unnoised"]))
    if not private:
        return Sections(facts, [], [], [unnoised])
    facts.append(("Noise from", card["noise_source"]))
    if "integers" in card:
        facts.append(("Integers", sums.noise(card["integers"])))
    return Sections(
        facts, list(card["adversaries"]), _notes(card), [("Assumptions", list(card["assumptions"])), unnoised]
    )


def _notes(card: Mapping[str, Any]) -> Named:
    found: Named = []
    if card["paper"]:
        found.append(("The paper's", f"{card['paper']['how']}: {shown(card['paper']['epsilon'])}"))
    published = card.get("integers", {}).get("published")
    if published:
        found.append(("Published", f"{published['how']}: {shown(published['epsilon'])}, model view"))
    if card.get("records", {}).get("epsilon_unnoticed") is not None:
        how = f"if no model showed whether the record's client took part, by {card['accountant']}"
        found.append(("Assumed", f"{how}: {shown(card['records']['epsilon_unnoticed'])}; this is not proven"))
    return found


def _batches(records: Mapping[str, Any]) -> str:
    steps = "1 step" if records["steps"] == 1 else f"{records['steps']} steps"
    drawn = f"a record of the smallest client is in with probability {records['batch']:.4g}"
    moved = "1 clipped gradient changes" if records["reach"] == 1 else f"{records['reach']} clipped gradients change"
    return f"{steps} a round, {records['batches']} batches: {drawn}; {moved} with it"
