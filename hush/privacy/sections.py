"""What a privacy card says, in order and in words: the terminal prints it, and pages show it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hush.privacy import meaning, sums
from hush.privacy.shown import shown

MEDIAN = "epsilon: the worst client's; median: half of all registered clients have no more"
UNAUDITED = "no audit was run: hush audit RUN"
SHOWN = (
    "shown: with this confidence, no epsilon below it can hold; infinite: what was looked for was recovered exactly. It"
    " stays below what is proven, or there is an alarm; a better attack may show more. A trial is a few rounds in which"
    " the client is known to be drawn: its epsilons, proven and shown, are of these rounds, not of the run above"
)
_COMPARED = "For comparison: it is not what this run promises"
_DRAWN = {
    "poisson": "poisson sampling (each is drawn at random, independently)",
    "fixed": "fixed sampling (always as many, drawn at random)",
    "once": "by turns that are public",
}
Named = list[tuple[str, str]]


class Sections(NamedTuple):
    """Facts by name; a row for each adversary; notes on epsilons of other kinds; lists, each with its title; details.

    audit: a row for each attack; None where a card does not know of any audit.
    """

    facts: Named
    adversaries: list[Mapping[str, Any]]
    notes: Named
    audit: list[Mapping[str, Any]] | None
    lists: list[tuple[str, list[str]]]
    details: Named


def sections(card: Mapping[str, Any]) -> Sections:
    """The whole card."""
    private = card["guarantee"] != "none"
    facts: Named = []
    if not private:
        facts.append(("Guarantee", f"none: {card['reason']}. No epsilon can be stated."))
        facts.append(("In words", "nothing bounds what may be learnt about a client or a record"))
        if card.get("paper"):
            claim = f"{shown(card['paper']['epsilon'])}: {card['paper']['how']}"
            facts.append(("The paper's", f"{claim}. It does not hold here, and promises nothing"))
    else:
        terms = f"delta {card['delta']:g}, {card['accountant']} accountant"
        facts.append(("Guarantee", f"{card['guarantee']}, {terms}"))
        facts.append(("Protected", card["protected"]))
        facts.append(("Epsilon", meaning.of_epsilon(card["level"])))
        facts.append(("Delta", meaning.of_delta(card["delta"])))
        worlds = card.get("neighbours", card["relation"])
        facts.append(("Neighbours", f"{worlds}. Epsilon compares the training with this other one"))
    many = f"{card['cohort']:g}" if card["cohort"] == round(card["cohort"]) else f"about {card['cohort']:.0f}"
    cohort = f"{many} of {card['population']} clients a round, {_DRAWN[card['sampling']]}"
    facts.append(("Rounds", f"{card['rounds']}, {cohort}: the round's cohort"))
    facts.append(("Took part", _joined(card["participation"])))
    if card.get("canaries"):
        facts.append(("Canaries", card["canaries"]))
    if card.get("secure"):
        facts.append(("Secure sum", sums.protocol(card["secure"])))
    if private:
        facts.append(("Noise from", card["noise_source"]))
    lists = [("Assumptions", list(card["assumptions"]))] if private else []
    return Sections(
        facts,
        list(card["adversaries"]) if private else [],
        _notes(card) if private else [],
        list(card["audit"]) if "audit" in card else None,
        [*lists, ("Used without noise", list(card["unnoised"]))],
        _details(card, private),
    )


def paragraph(row: Mapping[str, Any]) -> str:
    """Who an adversary is, who helps it, and what its numbers mean; a card of an older version may lack the latter."""
    return ". ".join(str(row[name]) for name in ("sees", "helped", "meaning") if row.get(name))


def attacks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each attack did and what its bounds assume, a sentence for each, whatever the number of its rows."""
    found: dict[str, str] = {}
    for row in rows:
        assumed = "" if row["assumes"] is None else f" Assumed: {row['assumes']}."
        found.setdefault(row["attack"], f"{row['attack']}: {str(row['words']).rstrip('.')}.{assumed}")
    return list(found.values())


def _joined(found: Mapping[str, Any]) -> str:
    rounds = "1 round" if found["worst"] == 1 else f"{found['worst']} rounds"
    return f"at most {rounds}, median {found['median']:g} (half of all clients took part in no more)"


def _notes(card: Mapping[str, Any]) -> Named:
    found: Named = []
    if card["paper"]:
        found.append(("The paper's", f"{card['paper']['how']}: {shown(card['paper']['epsilon'])}. {_COMPARED}"))
    published = card.get("integers", {}).get("published")
    if published:
        found.append(
            ("Published", f"{published['how']}: {shown(published['epsilon'])}, model view; another bound on the same")
        )
    if card.get("records", {}).get("epsilon_unnoticed") is not None:
        how = f"if no model showed whether the record's client took part, by {card['accountant']}"
        found.append(("Assumed", f"{how}: {shown(card['records']['epsilon_unnoticed'])}; this is not proven"))
    return found


def _details(card: Mapping[str, Any], private: bool) -> Named:
    """For specialists, and for whoever must find the run again."""
    found: Named = []
    if private:
        found.append(("Accountant", meaning.of_accountant(card["accountant"])))
    if "records" in card:
        found.append(("Batches", _batches(card["records"])))
    if "integers" in card:
        found.append(("Integers", sums.noise(card["integers"])))
    if card.get("versions"):
        found.append(("Versions", ", ".join(f"{name} {number}" for name, number in sorted(card["versions"].items()))))
    found += [("SHA-256", f"{one['sha256']} {one['file']}: {one['what']}") for one in card.get("files", ())]
    if card.get("signed"):
        found.append(("Signed", _signed(card["signed"])))
    return found


def _signed(found: Mapping[str, Any]) -> str:
    rehearsal = "" if found["simulation"] is None else ", a rehearsal's, which everybody can make"
    return (
        f"on {found['at']} with the server's key {found['key']}{rehearsal}, of the federation {found['federation']}."
        " The signature is in card.sig, beside card.json"
    )


def _batches(records: Mapping[str, Any]) -> str:
    steps = "1 step" if records["steps"] == 1 else f"{records['steps']} steps"
    drawn = f"a record of the smallest client is in with probability {records['batch']:.4g}"
    moved = "1 clipped gradient changes" if records["reach"] == 1 else f"{records['reach']} clipped gradients change"
    return f"{steps} a round, {records['batches']} batches: {drawn}; {moved} with it"
