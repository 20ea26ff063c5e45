"""One client: what it answers, what it refuses, what it writes down first, and what it can reach."""

import ast
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import hush.federation.session
from hush.catalogue.secure_form import secured
from hush.core.spec import Plan
from hush.core.task import Population
from hush.data.samples import Samples, Split
from hush.errors import Mistake, Refused
from hush.federation import messages
from hush.federation.charter import roster_digest
from hush.federation.claims import Claims
from hush.federation.policy import Policy
from hush.federation.session import ClientSession
from hush.parts.sampling import Poisson
from hush.parts.stages import TopFeedback, Weigh
from hush.privacy import views
from hush.privacy.ledger import Ledger
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed
from hush.secure import Identity
from hush.secure.messages import DOWN, HEAD, Phase


def test_an_answer_is_the_upload_of_its_own_rows(federation):
    """By hand: the client's own rows in a population of one, its draws by its name."""
    made = federation()
    data = made.plan()
    row, _ = messages.unpack_upload(made.session(5).answer(data), 91, 1, messages.digest(data))
    task, secret = made.task, SecretSeed.simulated(1)
    live = made.scheme.coordinates.draw(task.problem, hush.PublicSeed(7), 0, None)
    plan = messages.unpack_plan(
        data, hush.models.weights.flatten(task.model), live, made.scheme.coordinates, charter=made.charter.mark
    )
    slow = made.scheme.client(task.block(np.array([5]), secret), plan)[0]
    assert torch.equal(row, slow)


def test_other_rows_change_nothing_of_it(federation):
    """What other clients hold is not even there."""
    made = federation()
    held = made.task.population.own(3)
    assert len(held.data) == int(made.task.sizes[3])
    noise = Samples(torch.randn_like(made.task.train.inputs), made.task.train.targets.flip(0))
    mine = made.task.split.rows_of(3)
    noise.inputs[mine], noise.targets[mine] = made.task.train.inputs[mine], made.task.train.targets[mine]
    other = Population(noise, made.task.split).own(3)
    answers = []
    for own in (held, other):
        draws = Draws(SecretSeed.simulated(1), (3,))
        session = hush.federation.session.ClientSession(made.charter, made.scheme, made.task.problem, own, draws)
        answers.append(session.answer(made.plan()))
    assert answers[0] == answers[1]


def test_a_session_is_of_one_client(federation):
    made = federation()
    two = Population(made.task.train, Split.of([[0], [1]]))
    with pytest.raises(Mistake, match="of one client"):
        hush.federation.session.ClientSession(
            made.charter, made.scheme, made.task.problem, two, Draws(SecretSeed.simulated(0), (0,))
        )


def test_nothing_in_a_session_can_see_another_client():
    """The names of the simulator's whole population, books and sessions do not occur in it."""
    for name in ("session", "policy", "charter", "claims"):
        source = Path(hush.federation.session.__file__).with_name(f"{name}.py").read_text()
        names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
        found = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
        modules = {
            node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module
        }
        assert not {"Task", "Books", "State", "Sessions", "Blocks", "SecretSeed"} & names, name
        assert not {"books", "train", "enrolled", "rows_of"} & found, name
        assert not {"hush.core.state", "hush.federation.loopback", "hush.federation.simulated"} & modules, name


def test_a_round_is_answered_once_and_none_before_it(federation, tmp_path):
    made, path = federation(), tmp_path / "claims.json"
    made.session(claims=Claims(path)).answer(made.plan(2))
    for again in (2, 1):
        restarted = made.session(claims=Claims(path))  # another process, the same disk
        with pytest.raises(Refused, match=f"round {again} is not past round 2"):
            restarted.answer(made.plan(again))
    one, other = Claims(path), Claims(path)  # two processes at once
    assert made.session(claims=one).answer(made.plan(3))
    with pytest.raises(Refused, match="not past round 3"):
        made.session(claims=other).answer(made.plan(3))
    path.write_text("[]")
    with pytest.raises(Mistake, match="cannot be read"):
        Claims(path)


def test_it_is_charged_on_disk_before_it_answers(federation, tmp_path, monkeypatch):
    made, path = federation(), tmp_path / "privacy.json"
    seen = []
    fit = type(made.scheme.trainer).fit

    def watched(self, *arguments):
        seen.append([event.round for event in Ledger.load(path).events])
        return fit(self, *arguments)

    monkeypatch.setattr(type(made.scheme.trainer), "fit", watched)
    session = made.session(ledger=Ledger(path))
    for round in (1, 2):
        session.answer(made.plan(round))
    assert seen == [[1], [1, 2]]
    (event, _) = session.ledger.events
    assert event.share == pytest.approx(2.0 / np.sqrt(6))  # its own part of the noise


def test_its_own_budget_over_all_rounds(federation):
    """Against whoever sees its upload: two rounds of multiplier 2 / sqrt(6) are more than one."""
    made = federation()
    free = made.session()
    spent = []
    for round in (1, 2):
        free.answer(made.plan(round))
        found = views.views(free.ledger.events, free._joined, 1e-5, "pld")
        spent.append(found["upload"])
    assert spent[0] < spent[1]
    bound = made.session(policy=Policy(epsilon={"upload": sum(spent) / 2}))
    bound.answer(made.plan(1))
    with pytest.raises(Refused, match="epsilon of the upload view"):
        bound.answer(made.plan(2))
    assert len(bound.ledger.events) == 1
    bare = federation("fl-top", clip=None, noise=None)
    with pytest.raises(Refused, match="no guarantee"):
        bare.session(policy=Policy(epsilon={"upload": 9.0})).answer(bare.plan())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"floor": 100.0}, "noise shares for 100 clients, and cohorts of 6"),
        ({"floor": 6.1}, "noise shares for 6.1 clients"),
        ({"clip": -1.0}, "a bound of -1.0"),
        ({"clip": 0.5}, "a bound of 0.5"),
        ({"floor": 0.0}, "fewer than one"),
        ({"floor": float("inf")}, "a floor of inf"),
        ({"cohort": 1.0}, "divides by 1"),
        ({"round": 6}, "past the 5"),
        ({"mark": b"8 bytes."}, "another charter"),
    ],
)
def test_a_plan_that_protects_less_is_refused(federation, change, why):
    """A floor beyond the population would make the client's share of the noise small."""
    made = federation()
    session = made.session()
    with pytest.raises(Refused, match=why):
        session.answer(made.plan(**change))
    assert session.ledger.events == ()
    assert session.answer(made.plan())  # nothing was claimed


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


@pytest.mark.parametrize(("policy", "why"), [(Policy(noise=2.1), "asks for 2.1"), (Policy(clients=7), "asks for 7")])
def test_a_client_s_own_minimum(federation, policy, why):
    made = federation()
    with pytest.raises(Refused, match=why):
        made.session(policy=policy).answer(made.plan())
    assert made.session(policy=Policy(noise=2.0, clients=6, rounds=5, charter=made.charter.digest)).answer(made.plan())


def test_another_model_or_scheme_than_the_charter_s(federation):
    made = federation()
    for name in ("weights", "public", "layout"):
        with pytest.raises(Refused, match=f"charter's {name}"):
            made.session(charter=replace(made.charter, **{name: "0" * 64}))
    with pytest.raises(Refused, match="scheme is not the one"):
        made.session(charter=replace(made.charter, scheme=federation(noise=1.0).scheme.to_json()))


@pytest.mark.parametrize("name", ["fl-top-dp", "fl-sign", "two-bit"])
def test_garbage_is_refused_and_never_a_crash(federation, name):
    settings = {"fl-sign": {"clip": None, "noise": None}, "two-bit": {"clip": None, "noise": None, "precision": 7}}
    made = federation(name, **settings.get(name, {}))
    session, good = made.session(), bytearray(made.plan(**({"seats": np.array([2])} if name == "two-bit" else {})))
    rng = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(good)
        for place in rng.integers(len(bad), size=rng.integers(1, 4)):
            bad[place] ^= int(rng.integers(1, 256))
        bad = bytes(bad[: rng.integers(len(bad) + 1)]) if rng.random() < 0.3 else bytes(bad)
        with pytest.raises(Refused):
            session.answer(bad)
    for bad in (b"", b"hsd", b"hsd" + bytes(40), b"hush", bytes(100)):
        with pytest.raises(Refused):
            session.answer(bad)
    assert session.ledger.events == ()


def test_a_secure_round_with_a_roster_of_others_costs_nothing(federation):
    """Its own key is not in the cohort: it says no before it claims the round or charges its ledger."""
    made = federation()
    secure = secured(made.scheme, made.task)
    mine, *others = [Identity.new() for _ in range(12)]
    people = tuple((number, one.public) for number, one in enumerate((mine, *others)))
    charter = replace(made.charter, scheme=secure.to_json(), roster=roster_digest(people))
    session = ClientSession(
        charter,
        secure,
        made.task.problem,
        made.task.population.own(3),
        Draws(SecretSeed.simulated(1), (3,)),
        identity=mine,
        roster=people,
    )
    whole = replace(made, scheme=secure, charter=charter)
    puppets = tuple((number, Identity.new().public) for number in range(1, 6))
    for cohort, floor, why in (
        (people[1:7], 6.0, "key is not in the cohort"),
        ((people[0], *puppets), 6.0, "not on the charter's roster"),
        (people[:7], 6.0, "names a cohort of 7"),
        (people[:5], 6.0, "shares for 6 of 5 clients"),
        (people[:2], 2.0, "cannot open a sum"),
        ((people[0], people[0], *people[1:5]), 6.0, "twice"),
    ):
        plan = messages.Message(whole.plan(floor=floor), 0)
        with pytest.raises(Refused, match=why):
            session.answer(messages.with_roster(plan, cohort).data)
    assert session.ledger.events == ()
    plan = messages.Message(whole.plan(), 0)
    assert session.answer(messages.with_roster(plan, people[:6]).data)
    assert len(session.ledger.events) == 1
    with pytest.raises(Refused, match="not past round 1"):
        session.answer(messages.with_roster(plan, (people[0], *people[2:7])).data)


def test_a_mask_is_not_asked_of_a_client_in_vain(federation, monkeypatch):
    """A forged message of a later phase makes nobody train."""
    made = federation()
    secure = secured(made.scheme, made.task)
    identities = [Identity.new() for _ in range(12)]
    people = tuple((number, one.public) for number, one in enumerate(identities))
    charter = replace(made.charter, scheme=secure.to_json(), roster=roster_digest(people))
    own, draws = made.task.population.own(0), Draws(SecretSeed.simulated(1), (0,))
    session = ClientSession(charter, secure, made.task.problem, own, draws, identity=identities[0], roster=people)
    plan = messages.Message(replace(made, scheme=secure, charter=charter).plan(), 0)
    session.answer(messages.with_roster(plan, people[:6]).data)
    trained = []
    monkeypatch.setattr(type(secure.trainer), "fit", lambda *_: trained.append(1))
    for phase in Phase:
        with pytest.raises(Refused):
            session.answer(HEAD.pack(DOWN, 1, phase, 0, bytes(8)) + bytes(40))
    assert not trained


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"stages": (Weigh(),)}, "number of records"),
        ({"stages": (TopFeedback(0.1),)}, "uncounted"),
    ],
)
def test_a_scheme_that_hush_refuses_is_refused_by_the_client(federation, change, why):
    """Whatever a charter says: the record counts of Weigh, or kept noise, would leave uncovered."""
    made = federation("fl-standard-dp", clip=1.0, noise=2.0, balance="none", steps=1)
    scheme = replace(made.scheme, **change)
    charter = replace(made.charter, scheme=scheme.to_json())
    own, draws = made.task.population.own(3), Draws(SecretSeed.simulated(1), (3,))
    with pytest.raises(Refused, match=why):
        ClientSession(charter, scheme, made.task.problem, own, draws)


def test_poisson_cohorts_are_not_larger_than_chance_makes_them(federation):
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
        made.session(policy=Policy(noise=1.0)).answer(made.plan())
    shares = federation()
    with pytest.raises(Refused, match="noise of an upload"):
        shares.session(policy=Policy(share=1.0)).answer(shares.plan())
    with pytest.raises(Mistake, match="model view"):
        Policy(epsilon={"model": 1.0})


def test_one_answer_at_a_time(federation, tmp_path):
    """Two threads do not both pass the same budget."""
    made = federation()
    one = made.session()
    one.answer(made.plan(1))
    spent = views.views(one.ledger.events, one._joined, 1e-5, "pld")["upload"]
    session = made.session(policy=Policy(epsilon={"upload": 1.2 * spent}), ledger=Ledger(tmp_path / "privacy.json"))

    def ask(round: int) -> bool:
        try:
            return bool(session.answer(made.plan(round)))
        except Refused:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(ask, (1, 2, 3, 4))) == 1
    assert len(Ledger.load(tmp_path / "privacy.json").events) == 1


def test_a_client_of_a_real_server_has_the_system_s_draws(federation):
    made = federation()
    with pytest.raises(Mistake, match="for simulations"):
        made.session(charter=replace(made.charter, server="ab" * 32))
