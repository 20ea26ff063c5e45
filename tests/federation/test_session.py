"""One client: what it answers, what it refuses, what it writes down first, and what it can reach."""

import ast
import contextlib
import zlib
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
from federation.conftest import COHORT

import hush.federation.session
from hush.catalogue.secure_form import secured
from hush.core.scheme import Scheme
from hush.core.task import Population
from hush.data.samples import Samples, Split
from hush.errors import Mistake, Refused
from hush.federation import messages
from hush.federation.charter import roster_digest
from hush.federation.claims import Claims
from hush.federation.notebook import Notebook
from hush.federation.session import ClientSession
from hush.parts.stages import TopFeedback, Weigh
from hush.privacy.ledger import Ledger
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed
from hush.secure import Identity
from hush.secure.messages import DOWN, HEAD, Phase


def test_an_answer_is_the_upload_of_its_own_rows(federation):
    """By hand: the client's own rows in a population of one, its draws by its name."""
    made = federation()
    data = made.plan()
    row, _ = messages.unpack_upload(made.session(5).answer(data), 91, 1, messages.reference(messages.digest(data), 5))
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
        session = ClientSession(made.charter, made.scheme, made.task.problem, own, draws, simulation=True)
        answers.append(session.answer(made.plan()))
    assert answers[0] == answers[1]


def test_a_session_is_of_one_client(federation):
    made = federation()
    two = Population(made.task.train, Split.of([[0], [1]]))
    with pytest.raises(Mistake, match="of one client"):
        hush.federation.session.ClientSession(
            made.charter, made.scheme, made.task.problem, two, Draws(SecretSeed.simulated(0), (0,))
        )


def names_of(path):
    """Names, attributes and imported modules of a file."""
    tree = ast.parse(path.read_text())
    return (
        {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)},
        {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)},
        {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module},
    )


def test_nothing_in_a_session_can_see_another_client():
    """The names of the simulator's whole population, books, sessions and seed do not occur in it."""
    for name in ("session", "policy", "charter", "claims"):
        names, found, modules = names_of(Path(hush.federation.session.__file__).with_name(f"{name}.py"))
        assert not {"Task", "Books", "State", "Sessions", "Simulation", "SecretSeed"} & names, name
        assert not {"books", "train", "enrolled", "rows_of", "secret", "_secret"} & found, name
        assert not {"hush.core.state", "hush.federation.loopback", "hush.federation.simulated"} & modules, name


def test_no_part_reaches_behind_a_client_s_draws():
    """Trainers and the clients' half of stages draw for the clients of their block alone."""
    for path in (Path(hush.federation.session.__file__).parents[1] / "parts").rglob("*.py"):
        _, found, _ = names_of(path)
        assert "_secret" not in found, path


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
    head, later = messages.PLAN.size, made.plan(2, **({"seats": np.array([2])} if name == "two-bit" else {}))
    for _ in range(300):  # with a check sum that is right again
        bad = bytearray(later)
        for place in rng.integers(head + 100, size=rng.integers(1, 4)):
            bad[place] ^= int(rng.integers(1, 256))
        rest = bytes(bad[messages.PLAN_HEADER :])
        bad[head : messages.PLAN_HEADER] = messages.CRC.pack(zlib.crc32(rest, zlib.crc32(bytes(bad[:head]))))
        with contextlib.suppress(Refused):
            assert made.session().answer(bytes(bad))
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
        simulation=True,
    )
    whole = replace(made, scheme=secure, charter=charter)
    for cohort, floor, why in (
        (range(1, 7), 6.0, "key is not in the cohort"),
        ((0, *range(12, 17)), 6.0, "not on the charter's roster"),
        (range(-5, 1), 6.0, "out of order, or one twice"),
        ((1, 0, *range(2, 6)), 6.0, "out of order, or one twice"),
        (range(7), 6.0, "names a cohort of 7"),
        (range(5), 6.0, "shares for 6 of 5 clients"),
        (range(2), 2.0, "charter's have 6 at least"),
        ((0, *range(5)), 6.0, "out of order, or one twice"),
    ):
        plan = messages.Message(whole.plan(floor=floor), 0)
        with pytest.raises(Refused, match=why):
            session.answer(messages.with_cohort(plan, cohort).data)
    assert session.ledger.events == ()
    plan = messages.Message(whole.plan(), 0)
    assert session.answer(messages.with_cohort(plan, range(6)).data)
    assert len(session.ledger.events) == 1
    with pytest.raises(Refused, match="not past round 1"):
        session.answer(messages.with_cohort(plan, (0, *range(2, 7))).data)


def test_a_roster_has_each_client_once(federation):
    """The digest has no order: of two keys with one number either could be taken, by each client another."""
    made = federation()
    secure = secured(made.scheme, made.task)
    identities = [Identity.new() for _ in range(12)]
    people = tuple((min(number, 10), one.public) for number, one in enumerate(identities))
    charter = replace(made.charter, scheme=secure.to_json(), roster=roster_digest(people))
    own, draws = made.task.population.own(0), Draws(SecretSeed.simulated(1), (0,))
    assert len(people) == charter.population
    for roster in (people, people[::-1]):
        with pytest.raises(Refused, match="the roster has a client's number twice"):
            ClientSession(
                charter, secure, made.task.problem, own, draws, identity=identities[0], roster=roster, simulation=True
            )


def test_a_mask_is_not_asked_of_a_client_in_vain(federation, monkeypatch):
    """A forged message of a later phase makes nobody train."""
    made = federation()
    secure = secured(made.scheme, made.task)
    identities = [Identity.new() for _ in range(12)]
    people = tuple((number, one.public) for number, one in enumerate(identities))
    charter = replace(made.charter, scheme=secure.to_json(), roster=roster_digest(people))
    own, draws = made.task.population.own(0), Draws(SecretSeed.simulated(1), (0,))
    session = ClientSession(
        charter, secure, made.task.problem, own, draws, identity=identities[0], roster=people, simulation=True
    )
    plan = messages.Message(replace(made, scheme=secure, charter=charter).plan(), 0)
    session.answer(messages.with_cohort(plan, range(6)).data)
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
        ClientSession(charter, scheme, made.task.problem, own, draws, simulation=True)


def test_a_client_of_a_real_server(federation, tmp_path):
    """System draws, and what it answered on disk: whatever the charter says, and although it names no server."""
    made = federation()
    charter = replace(made.charter, server="ab" * 32)
    ledger, claims = Ledger(tmp_path / "privacy.json"), Claims(tmp_path / "claims.json")
    own, names = made.task.population.own(3), (3,)

    def opened(charter=charter, secret=None, ledger=ledger, claims=claims, scheme=made.scheme):
        draws = Draws(secret or SecretSeed.system(), names)
        return ClientSession(charter, scheme, made.task.problem, own, draws, ledger=ledger, claims=claims)

    with pytest.raises(Refused, match="names no server"):
        opened(made.charter)
    with pytest.raises(Mistake, match="for simulations"):
        opened(secret=SecretSeed.simulated(1))
    for lacking in ({"ledger": None}, {"claims": None}, {"ledger": Ledger()}, {"claims": Claims()}):
        with pytest.raises(Mistake, match="on disk"):
            opened(**lacking)
    halves = secured(made.scheme, made.task, servers=2)
    with pytest.raises(Refused, match="no second server"):
        opened(replace(charter, scheme=halves.to_json()), scheme=halves)
    whole = replace(made, charter=charter)
    assert opened().answer(whole.plan())
    with pytest.raises(Refused, match="not past round 1"):
        opened(ledger=Ledger.load(ledger.path), claims=Claims(claims.path)).answer(whole.plan())


def test_a_run_s_name_is_of_one_charter(federation, tmp_path):
    made, path = federation(), tmp_path / "claims.json"
    other = replace(made, charter=replace(made.charter, rounds=9))
    made.session(claims=Claims(path)).answer(made.plan())
    with pytest.raises(Refused, match="another charter"):
        other.session(claims=Claims(path)).answer(other.plan(2))
    assert made.session(claims=Claims(path)).answer(made.plan(2))


def test_a_label_that_the_model_does_not_know_is_found_before_anything_is_charged(federation, tmp_path):
    made = federation()
    own = made.task.population.own(3)
    own.data.targets[-1] = 10
    draws, ledger = Draws(SecretSeed.simulated(1), (3,)), Ledger(tmp_path / "privacy.json")
    with pytest.raises(Mistake, match="check inputs and labels"):
        ClientSession(made.charter, made.scheme, made.task.problem, own, draws, ledger=ledger, simulation=True)
    assert ledger.events == ()


def test_a_charter_of_many_clients_costs_a_client_nothing(federation):
    made = federation("fl-standard-dp", clip=1.0, noise=2.0, balance="none", steps=1)
    made = replace(made, charter=replace(made.charter, population=2**32 - 1))
    assert made.session().spent() == {"model": "none", "server": "none", "server_median": "none"} | {
        name: "none" for name in ("upload", "upload_median")
    }
    with pytest.raises(Refused, match="the charter's cohorts have"):  # and no error of memory
        made.session().answer(made.plan(cohort=1.0))


def test_memory_that_nobody_settled_does_not_pile_up(federation):
    """An upload that was not said to be taken leaves what the client kept as it was."""
    made = federation("top-k-ef", clip=None, noise=None)
    session = made.session()
    for round in (1, 2, 3):
        session.answer(made.plan(round))
        assert len(session.memory._noted) == 1
    assert len(session.memory) == 0
    session.memory.settle()
    assert len(session.memory) == 1


def test_a_round_that_still_trains_leaves_no_memory_to_the_next(federation, tmp_path, monkeypatch):
    """A server that went on without it sends the next plan: what the late round keeps is not this round's."""
    made = federation("top-k-ef", clip=None, noise=None).secured()
    plans = [made.plan(number, floor=(1 - made.scheme.tolerance) * COHORT) for number in (1, 2)]
    late, may_end = Event(), Event()
    fit = Scheme.client

    def slow(self, block, plan, engine):
        found = fit(self, block, plan, engine)
        if plan.round == 1:
            late.set()
            assert may_end.wait(30)
        return found

    monkeypatch.setattr(Scheme, "client", slow)
    session = made.session(notebook=Notebook(tmp_path / "memory"), ahead=True)
    session.answer(plans[0], taken=0)
    assert late.wait(30)
    first = session._numbers
    session.answer(plans[1], taken=0)
    session._numbers()
    written = (tmp_path / "memory").read_bytes()
    noted = session.memory.settled().state()
    may_end.set()
    first()
    assert (tmp_path / "memory").read_bytes() == written
    assert all((noted[name] == kept).all() for name, kept in session.memory.settled().state().items())
    assert noted
