"""What a privacy card rests on, in sentences: given how a run sampled, who added the noise, what the server saw."""

import math

from hush.privacy import sums
from hush.privacy.facts import Facts

FLOATING = (
    "the noise is drawn and added in floating point, and the guarantee is proven for real numbers: the last bits of a"
    " release may reveal more (Mironov 2012); integer noise (--secure) has no such gap"
)


def assumptions(facts: Facts) -> list[str]:
    """What every card of such a run rests on."""
    return _of_clients(facts) if facts.level == "client" else _of_records(facts)


def _of_clients(facts: Facts) -> list[str]:
    """What every card rests on, given how the run sampled and what the server saw."""
    found = [
        "model: nobody outside the server learns who was drawn for a round",
        "the number of clients, the sampling rate and the divisor of the mean are public and fixed",
    ]
    if facts.sampling == "once":
        found = [
            "the schedule and the divisor of the mean are public and fixed",
            "each client pays for its own turns alone: to the rounds of others it adds nothing",
            "whether a client answers when its turn comes is not hidden",
        ]
    if facts.trusted:
        seen = "every client's clipped update" if facts.secure is None else "the sum of the clipped updates"
        found += [
            *facts.noise_assumptions,
            f"model: the server is trusted. It sees {seen}, and adds the noise itself",
        ]
    else:
        found += [
            "a client that took part knows its own noise share: against it a cohort of m clients has"
            f" sqrt((m - 1)/m) of the stated noise, {_left(facts.cohort)} for {facts.cohort:.0f}",
            *facts.noise_assumptions,
        ]
    if facts.sampling == "fixed" and facts.accountant != "pld":
        found.append(
            "model: the worst pair of one fixed-size round is taken as the worst of all rounds together; "
            "this is not proven, and the pld accountant gives the proven bound"
        )
    found += sums.dropouts(
        facts.secure is not None, facts.sampling, facts.trusted, facts.tolerance, facts.dropout, facts.slack
    )
    if facts.integers is None and facts.floating:
        found.append(FLOATING)
    if facts.trusted:
        return [*found, *sums.assumed(facts.secure, facts.servers)]
    if facts.secure is None and "upload" in facts.epsilon:
        found.append("server: it looks at the sum alone; it could read single uploads, see upload")
    else:
        found += ["server: secure aggregation shows it the sum alone", *sums.assumed(facts.secure, facts.servers)]
    found.append("model, server: the other clients of the cohort are honest and add their noise shares")
    kind = None if facts.integers is None else facts.integers.kind
    return [*found, *sums.shared(kind, 0.0 if facts.secure is None else facts.corrupt)]


def _left(cohort: float) -> str:
    """What of the noise of a cohort one of its clients does not know, rounded down."""
    return f"{math.floor(1000 * math.sqrt(max(0.0, 1 - 1 / max(1, round(cohort))))) / 10:g} %"


def _of_records(facts: Facts) -> list[str]:
    """The same, where one record is protected."""
    public = ", the batch size and the divisors" if facts.uncovered is None else " and the batch size"
    found = [
        f"the sizes of the clients' data{public} are public and fixed: a record that is removed leaves an empty place",
        "a person with several records is protected only record by record",
        "each client adds all of the noise to its own sums: no trust in other clients, in the server or in secure"
        " aggregation is needed, only that the record's own client is honest",
        "model: a round counts with the probability of the client to be drawn. That does not multiply with the record's"
        " own probability: the other records of the client may show in a model that it took part",
        "server, upload: the client's own rounds count, and its own number of records. They are for the draws that"
        " happened and model is for those that might have: either may be the larger",
        "what was fitted on the data (scalers, vocabularies) is named below, and nothing else was",
        "whether a client drops out does not depend on its records",
        FLOATING,
    ]
    if facts.reach > 1:
        found.append(
            "batches are balanced by leaving records out: one that is removed takes its partner with it, or lets"
            f" another one in. {facts.reach} clipped gradients change, so the noise counts 1/{facts.reach}; the paper"
            " counts one"
        )
    if facts.uncovered is not None:
        found.append(
            f"no noise covers {facts.uncovered}: every epsilon here assumes that these sizes are public and do not"
            " depend on any one record. Where they do, there is no guarantee"
        )
    if facts.secure is not None:
        found += [
            "secure aggregation shows the server the sum alone; no epsilon here relies on it",
            *sums.assumed(facts.secure, facts.servers),
        ]
    if facts.batches == "fixed" and facts.accountant != "pld":
        found.append(
            "the worst pair of one fixed-size batch is taken as the worst of all together; this is not proven, and"
            " the pld accountant gives the proven bound"
        )
    return found
