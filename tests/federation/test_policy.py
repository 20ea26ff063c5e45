"""What a client insists on: its own minimum, and its budget over all federations of its ledger."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from federation.conftest import COHORT

from hush.core.spec import Plan
from hush.errors import Mistake, Refused
from hush.federation import messages
from hush.federation.policy import Policy
from hush.parts.sampling import Poisson
from hush.privacy.ledger import Ledger


def test_its_own_budget_over_all_rounds(federation):
    """Against whoever sees its upload: two rounds of multiplier 2 / sqrt(6) are more than one."""
    made = federation()
    free = made.session()
    spent = []
    for round in (1, 2):
        free.answer(made.plan(round))
        spent.append(free.spent()["upload"])
    assert spent[0] < spent[1]
    bound = made.session(policy=Policy(epsilon={"upload": sum(spent) / 2}))
    bound.answer(made.plan(1))
    with pytest.raises(Refused, match="epsilon of the upload view"):
        bound.answer(made.plan(2))
    assert len(bound.ledger.events) == 1
    bare = federation("fl-top", clip=None, noise=None)
    with pytest.raises(Refused, match="no guarantee"):
        bare.session(policy=Policy(epsilon={"upload": 9.0}))


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Policy(charter="ab" * 32), "agreed to"),
        (Policy(secure=True), "demands a secure sum"),
        (Policy(rounds=4), "answers 4 at most"),
    ],
)
def test_a_charter_that_it_did_not_agree_to(federation, policy, why):
    with pytest.raises(Refused, match=why):
        federation().session(policy=policy)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Policy(noise=2.1), "asks for 2.1"),
        (Policy(clients=7), "asks for 7"),
        (Policy(share=0.9), "noise of an upload"),
    ],
)
def test_a_client_s_own_minimum(federation, policy, why):
    """Decided once: what a round's cohort is must not decide who answers it."""
    made = federation().secured()
    with pytest.raises(Refused, match=why):
        made.session(policy=policy)
    enough = Policy(noise=2.0, share=0.8, clients=6, rounds=5, charter=made.charter.digest)
    assert made.session(policy=enough).answer(made.plan())


def test_a_plain_sum_is_that_of_one_client(federation):
    """Its noise against the server is the client's own share: nobody can show it that others answered."""
    made = federation()
    with pytest.raises(Refused, match=r"worth 0\.816497 against the server"):
        made.session(policy=Policy(noise=2.0))
    with pytest.raises(Refused, match="plain sum may be taken of one client"):
        made.session(policy=Policy(clients=2))
    assert made.session(policy=Policy(noise=0.8, share=0.8)).answer(made.plan())


def test_random_cohorts_are_taken_at_their_largest_and_smallest(federation):
    """A minimum that depended on the cohort drawn would let all clients refuse together, for all to see."""
    made = federation()
    scheme = replace(made.scheme, sampling=Poisson(0.5))
    made = replace(made, scheme=scheme, charter=replace(made.charter, scheme=scheme.to_json()))
    with pytest.raises(Refused, match="noise of an upload"):
        made.session(policy=Policy(share=2.0 / 6**0.5))
    assert made.session(policy=Policy(share=2.0 / 12**0.5)).answer(made.plan(floor=2.0))
    several = replace(made, scheme=replace(scheme, sampling=Poisson(0.5, floor=5))).secured()
    with pytest.raises(Refused, match="opened over 5 clients"):
        several.session(policy=Policy(clients=6))
    assert several.session(policy=Policy(clients=5))


@pytest.mark.parametrize("name", ["fl-top", "fl-top-dp"])
def test_a_cohort_smaller_than_the_charter_s(federation, name):
    """With two colluding clients a server could open what the third one sent: no honest one has such a cohort."""
    private = name.endswith("-dp")
    made = federation(name, **({} if private else {"clip": None, "noise": None})).secured()
    session = made.session(3)
    for few in ((1, 3, 5), range(5)):
        plan = made.plan(floor=round((1 - made.scheme.tolerance) * len(few), 9))
        alone, _ = messages.split_cohort(plan, COHORT)
        with pytest.raises(Refused, match=f"cohort of {len(few)}, and the charter's have 6 at least"):
            session.answer(messages.with_cohort(messages.Message(alone, 0), few).data)
    assert session.ledger.events == ()
    assert session.answer(made.plan(floor=(1 - made.scheme.tolerance) * COHORT))


def test_the_fewest_clients_of_a_sum_without_noise_in_shares(federation):
    """A secure sum whose clients may drop out is opened over two thirds of them, and the policy knows it."""
    made = federation("fl-top", clip=None, noise=None).secured()
    with pytest.raises(Refused, match="sums may be opened over 4 clients, and this client asks for 5"):
        made.session(policy=Policy(clients=5))
    assert made.session(policy=Policy(clients=4)).answer(made.plan(floor=(1 - made.scheme.tolerance) * COHORT))


def test_poisson_cohorts_are_not_larger_than_is_probable(federation):
    """A floor of the whole population would leave a client next to no noise of its own."""
    made = federation()
    scheme = replace(made.scheme, sampling=Poisson(1 / 100))
    charter = replace(made.charter, scheme=scheme.to_json(), population=2000)
    policy, plan = Policy(), Plan(1, torch.zeros(910), None, 20.0, 20.0)
    policy.check(charter, scheme, plan)
    policy.check(charter, scheme, replace(plan, floor=50.0))
    for floor in (60.0, 2000.0):
        with pytest.raises(Refused, match="noise shares for"):
            policy.check(charter, scheme, replace(plan, floor=floor))


def test_noise_that_the_server_adds_is_none_against_it(federation):
    made = federation("dp-fedavg")
    with pytest.raises(Refused, match="worth 0 against the server"):
        made.session(policy=Policy(noise=1.0))
    with pytest.raises(Mistake, match="model view"):
        Policy(epsilon={"model": 1.0})


def test_one_answer_at_a_time(federation, tmp_path):
    """Two threads do not both pass the same budget."""
    made = federation()
    one = made.session()
    one.answer(made.plan(1))
    spent = one.spent()["upload"]
    session = made.session(policy=Policy(epsilon={"upload": 1.2 * spent}), ledger=Ledger(tmp_path / "privacy.json"))

    def ask(round: int) -> bool:
        try:
            return bool(session.answer(made.plan(round)))
        except Refused:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(ask, (1, 2, 3, 4))) == 1
    assert len(Ledger.load(tmp_path / "privacy.json").events) == 1


def test_a_budget_holds_over_federations_that_share_a_ledger(federation, tmp_path):
    """Two sessions of one client, each with the same file, or with the same object."""
    made, path = federation(), tmp_path / "privacy.json"
    other = replace(made, charter=replace(made.charter, run="other"))
    free = made.session()
    for round in (1, 2, 3):
        free.answer(made.plan(round))
    policy = Policy(epsilon={"upload": free.spent()["upload"] * 1.001})
    Ledger(path).write_card({})
    shared = Ledger()
    for ledgers in ((Ledger.load(path), Ledger.load(path)), (shared, shared)):
        pair = [
            (one, one.session(policy=policy, ledger=ledger)) for one, ledger in zip((made, other), ledgers, strict=True)
        ]
        turns = [(one, session, round) for round in (1, 2, 3) for one, session in pair]
        for one, session, round in turns[:3]:
            assert session.answer(one.plan(round))
        for one, session, round in turns[3:]:
            with pytest.raises(Refused, match="past the budget"):
                session.answer(one.plan(round))
        assert pair[0][1].spent() == pair[1][1].spent()
    assert len(Ledger.load(path).events) == 3


def test_every_event_of_a_shared_ledger_counts_in_full(federation):
    """Cheap rounds of one federation do not hide the dear ones of another."""
    dear, cheap, ledger = federation(noise=1.0), federation(noise=20.0), Ledger()
    cheap = replace(cheap, charter=replace(cheap.charter, run="other"))
    first, second = dear.session(ledger=ledger), cheap.session(ledger=ledger)
    for round in (1, 2, 3):
        first.answer(dear.plan(round))
    before = second.spent()["upload"]
    for round in (1, 2, 3):
        second.answer(cheap.plan(round))
    assert first.spent() == second.spent()
    assert second.spent()["upload"] > before


def test_a_budget_is_at_the_client_s_own_delta(federation):
    """A charter with a delta of nearly 1 would make every epsilon small."""
    made = federation()
    loose = replace(made, charter=replace(made.charter, delta=0.999999))
    spent = made.session()
    spent.answer(made.plan())
    policy = Policy(epsilon={"upload": spent.spent()["upload"] / 2})
    with pytest.raises(Refused, match=r"past the budget$"):  # and by how much is not said
        loose.session(policy=policy).answer(loose.plan())


def test_what_no_noise_covers_is_refused_where_there_is_a_budget(federation):
    made = federation("fl-standard-dp", clip=1.0, noise=2.0, balance="none", steps=1)
    scheme = replace(made.scheme, trainer=replace(made.scheme.trainer, divisor="drawn"))
    made = replace(made, scheme=scheme, charter=replace(made.charter, scheme=scheme.to_json()))
    with pytest.raises(Refused, match="no noise covers"):
        made.session(policy=Policy(epsilon={"upload": 1e6}))


def test_the_noise_of_a_vote_is_held_to_the_same_minimum(federation):
    """It is a release of its own, of round 0."""
    made = federation(vote=0.1)
    assert made.scheme.poll(made.task.problem.layout) is not None
    with pytest.raises(Refused, match=r"worth 0\.0408248 against the server"):
        made.session(policy=Policy(noise=0.8))
    assert federation(vote=2.0).session(policy=Policy(noise=0.8))
