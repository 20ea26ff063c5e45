"""A secure sum is the plain sum of integers, to the bit, with the bytes of the protocol."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hush.catalogue.entries import ENTRIES
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.integers import Integers
from hush.core.packing import FLOATS, Buckets, Codes, Few, Form
from hush.core.scheme import Scheme
from hush.core.spec import Asked, Members, Plan, Spec, Uploads
from hush.core.task import Task
from hush.data.samples import Samples
from hush.errors import Aborted, Mistake
from hush.federation import messages
from hush.models.weights import flatten
from hush.parts.aggregators import SecureSum
from hush.parts.aggregators.secure import LEAST, width
from hush.parts.sampling import Fixed
from hush.parts.trainers import Sgd
from hush.random.seeds import SecretSeed
from hush.secure import Identity, Round, Tally, Terms
from hush.secure.messages import HEAD, SIGNATURE, from_client
from hush.secure.twoserver import Half, HalfServer, join, split

SECRET = SecretSeed.simulated(3)
NAMES = [2, 3, 5, 8, 13, 21, 34, 55, 89]
SIZES = dict(zip(NAMES, [4.0, 1.0, 7.0, 2.0, 9.0, 3.0, 3.0, 1.0, 20.0], strict=True))
SERVERS = pytest.mark.parametrize("servers", [1, 2])


@dataclass
class Noted:
    """What a secure sum told the books."""

    found: list[tuple[list[int], Tally, int]] = field(default_factory=list)

    def __call__(self, members: Members, tally: Tally, payload: int) -> None:
        self.found.append((members.tolist(), tally, payload))


def asked(noted: Noted, **other: Any) -> Asked:
    given: dict[str, Any] = {"size": 40, "form": Integers(12), "round": 3, "announced": (b"plan", b"weights")}
    return Asked(**{**given, "cohort": np.array(NAMES), "secret": SECRET, "note": noted, **other})


def rows(form: Integers | Codes, size: int = 40) -> dict[int, torch.Tensor]:
    """One row each, from end to end of what the form holds."""
    rng = torch.Generator().manual_seed(form.bits)
    top = 2 ** (form.width - 1) if isinstance(form, Integers) else 0
    found = {}
    for name in NAMES:
        if isinstance(form, Integers):
            found[name] = torch.randint(-top, top, (size,), generator=rng).int()
        else:
            found[name] = (2 * torch.randint(0, form.top + 1, (size,), generator=rng) - form.top).float()
    return found


def blocks(values: dict[int, torch.Tensor], present: list[int], length: int) -> Iterator[Uploads]:
    for first in range(0, len(present), length):
        names = present[first : first + length]
        body, sizes = torch.stack([values[name] for name in names]), torch.tensor([SIZES[name] for name in names])
        yield Uploads(body, sizes, None, np.array(names))


FORMS = [Integers(2), Integers(9), Integers(12), Integers(32), Codes(1), Codes(2), Codes(8)]


@SERVERS
@pytest.mark.parametrize("gone", [[], [5], [2, 34, 89]], ids=["all", "one lost", "a third lost"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_same_to_the_bit(form: Integers | Codes, gone: list[int], servers: Any) -> None:
    values, present = rows(form), [name for name in NAMES if name not in gone]
    totals, notes = [], []
    for full in (False, True):
        noted = Noted()
        totals.append(SecureSum(full, servers).combine(blocks(values, present, 4), asked(noted, form=form)))
        notes += noted.found
    plain, masked = totals
    assert torch.equal(plain.body, masked.body)
    assert plain.body.dtype == masked.body.dtype == torch.float64
    assert (plain.count, plain.weight, plain.refused) == (masked.count, masked.weight, masked.refused)
    assert (plain.count, plain.weight) == (len(present), sum(SIZES[name] for name in present))
    bits = width(form, len(NAMES))
    half, exact = 2 ** (bits - 1), torch.stack([values[name].long() for name in present]).sum(0)
    assert torch.equal(plain.body, ((exact + half) % 2**bits - half).double())
    if isinstance(form, Codes):
        assert torch.equal(plain.body, exact.double())
    (members, tally, payload), other = notes
    assert (members, payload, other[0], other[2]) == (NAMES, math.ceil(40 * bits / 8), members, payload)
    assert tally.phases == other[1].phases
    assert np.array_equal(tally.up, other[1].up)
    assert np.array_equal(tally.down, other[1].down)
    carried = tally.up[tally.phases.index("mask" if servers == 1 else "numbers")]
    assert (carried > payload).tolist() == [name in present for name in NAMES]


@SERVERS
@pytest.mark.parametrize("left", [0, 3, 5])
def test_too_few_abort_the_same_way(left: int, servers: Any) -> None:
    """With the same sentence, and with what was sent in vain."""
    values, said = rows(Integers(12)), []
    for full in (False, True):
        noted = Noted()
        with pytest.raises(Aborted) as why:
            SecureSum(full, servers).combine(blocks(values, NAMES[:left], 4), asked(noted))
        said.append((str(why.value), why.value.refused, noted.found))
    (sentence, refused, [(_, tally, _)]), (other, others, [(_, masked, _)]) = said
    assert sentence == other
    assert sentence.startswith(f"round 3: {left} clients ")
    assert "6 are needed" in sentence
    assert refused == others == ()
    assert np.array_equal(tally.up, masked.up)
    assert np.array_equal(tally.down, masked.down)


@pytest.mark.parametrize("full", [False, True])
def test_noise_that_relies_on_all_of_them(full: bool) -> None:
    """The floor is part of the terms: fewer never open a sum."""
    values = rows(Integers(12))
    with pytest.raises(Aborted, match=r"8 clients .* 9 are needed"):
        SecureSum(full).combine(blocks(values, NAMES[1:], 4), asked(Noted(), floor=8.1))
    SecureSum(full).combine(blocks(values, NAMES[1:], 4), asked(Noted(), floor=8.0))


@SERVERS
def test_whatever_the_blocks_and_the_order(servers: Any) -> None:
    values = rows(Integers(12))
    first = SecureSum(True, servers).combine(blocks(values, NAMES, 1), asked(Noted()))
    for length, order in ((4, NAMES), (100, NAMES), (2, NAMES[::-1])):
        again = SecureSum(True, servers).combine(blocks(values, order, length), asked(Noted()))
        assert torch.equal(again.body, first.body)


def test_a_ring() -> None:
    """With few neighbours each: the same sum, and the same bytes."""
    names = list(range(20))
    values = {name: torch.full((5,), name - 9, dtype=torch.int32) for name in names}
    present, totals, notes = [name for name in names if name not in (4, 17)], [], []
    for full in (False, True):
        noted = Noted()
        facts = asked(noted, size=5, floor=18.0, cohort=np.array(names))
        assert SecureSum(corrupt=0.0).terms(facts, roster(people(names))).degree == 6
        sent = (Uploads(values[name][None], torch.ones(1), None, np.array([name])) for name in present)
        totals.append(SecureSum(full, corrupt=0.0).combine(sent, facts))
        notes += noted.found
    assert torch.equal(totals[0].body, totals[1].body)
    assert totals[0].body.tolist() == [sum(name - 9 for name in present)] * 5
    (_, tally, _), (_, masked, _) = notes
    assert np.array_equal(tally.up, masked.up)
    assert np.array_equal(tally.down, masked.down)


def test_it_must_know_whose_uploads_they_are() -> None:
    values = rows(Integers(12))
    for full in (False, True):
        with pytest.raises(Mistake, match="must know whose uploads they are"):
            SecureSum(full).combine((u._replace(clients=None) for u in blocks(values, NAMES, 4)), asked(Noted()))


def people(cohort: list[int]) -> dict[int, Identity]:
    return {name: Identity(SECRET.key("identity", name)) for name in cohort}


def roster(cohort: dict[int, Identity]) -> tuple[tuple[int, bytes], ...]:
    return tuple((name, identity.public) for name, identity in cohort.items())


CROWD = people(list(range(60)))


@given(st.integers(3, 60), st.floats(0, 1 / 3), st.floats(0, 1))
def test_terms(n: int, corrupt: float, floor: float) -> None:
    """Never fewer than the noise relies on, than two thirds, than three; and no two sums can both be opened."""
    cohort = {name: CROWD[name] for name in range(n)}
    agreed = SecureSum(corrupt=corrupt).terms(asked(Noted(), floor=floor * n, cohort=np.arange(n)), roster(cohort))
    helpers = math.floor(corrupt * n)
    assert max(LEAST, floor * n, 2 * n / 3) - 1e-6 <= agreed.threshold <= n
    assert 2 * agreed.threshold > n + helpers
    assert agreed.threshold <= max(LEAST, math.ceil(floor * n), math.ceil(2 * n / 3) + 1)  # and no more than needed
    assert (agreed.bits, agreed.size, agreed.round) == (12, 40, 3)


@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 10**6))
def test_codes_never_wrap(bits: int, clients: int) -> None:
    top = Codes(bits).top * clients
    found = width(Codes(bits), clients)
    assert -(2 ** (found - 1)) <= -top < top < 2 ** (found - 1)
    assert found == 2 or top >= 2 ** (found - 2)  # with one bit less it would


def checked(form: Form, tolerance: float | None, floor: int) -> None:
    rows = Samples(torch.zeros(9, 1), torch.zeros(9, 1))
    task = Task(nn.Linear(1, 1), nn.functional.mse_loss, rows, [[client] for client in range(9)])
    SecureSum().check(Scheme(Sgd(0.1, 1, 1), Fixed(9, floor, tolerance)), task, Spec(2, form=form))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: SecureSum(servers=3), "servers=3 must be 1 or 2"),
        (lambda: SecureSum(servers=0), "servers=0 must be 1 or 2"),
        (lambda: SecureSum(corrupt=-0.1), "corrupt=-0.1 must be from 0 to 0.33"),
        (lambda: SecureSum(corrupt=0.34), "corrupt=0.34 must be"),
        (lambda: SecureSum(corrupt=math.nan), "corrupt=nan must be"),
        (lambda: checked(FLOATS, None, 3), "Floats cannot be added modulo .* hush.secured"),
        (lambda: checked(Buckets(4, 512), None, 3), "Buckets cannot be added modulo"),
        (lambda: checked(Few(3), None, 3), "Few cannot be added modulo"),
        (lambda: checked(Integers(8), 0.34, 3), "tolerance=0.34 is more than a third: .* lower it"),
        (lambda: checked(Integers(8), 0.2, 2), "floor=2 .* fewer than 3 clients: raise it"),
        (lambda: checked(Integers(8), None, 0), "floor=0 .* raise it"),
    ],
)
def test_mistakes(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()


def test_what_can_be_added() -> None:
    for form in FORMS:
        for tolerance in (None, 0.0, 1 / 3):
            checked(form, tolerance, 3)


@pytest.fixture
def told(task: Task, settings: Settings) -> Any:
    """The terms of a round of a real scheme, by a change to what one client was told: weights, plan or cohort."""
    scheme = secured(ENTRIES["fl-top-dp"].scheme(replace(settings, sampling=Fixed(9))), task)
    live = torch.arange(91)

    def terms(weights: Any = None, names: list[int] = NAMES, **plan: Any) -> Terms:
        start = flatten(task.model) if weights is None else weights(flatten(task.model))
        told = Plan(**{"round": 3, "weights": start, "live": live, "cohort": 9.0, "floor": 7.0, **plan})
        order = messages.pack_plan(told, scheme.coordinates)
        facts = scheme.asked(told, order.data, np.array(names), SECRET, Noted())
        return SecureSum().terms(facts, roster(people(names)))

    return terms


def one_bit(place: int, bit: int) -> Any:
    def change(weights: torch.Tensor) -> torch.Tensor:
        data = weights.numpy().copy()
        data.view(np.uint32)[place] ^= np.uint32(1 << bit)
        return torch.from_numpy(data)

    return change


OTHERS: dict[str, dict[str, Any]] = {
    "the lowest bit of a weight that travels": {"weights": one_bit(5, 0)},
    "of one that clients have": {"weights": one_bit(909, 0)},
    "a sign": {"weights": one_bit(300, 31)},
    "the floor": {"floor": 7.000001},
    "who else is asked": {"names": [*NAMES[:-1], 90]},
    "what the mean divides by": {"cohort": 9.000001},
    "the bound": {"clip": 0.4500001},
    "the round": {"round": 4},
}


@pytest.mark.parametrize("what", OTHERS)
def test_one_bit_of_what_one_client_was_told(what: str, told: Any) -> None:
    """It is left out, by both sides; and were it let in, the sum would be noise."""
    agreed, other = told(), told(**OTHERS[what])
    assert agreed.digest != other.digest == told(**OTHERS[what]).digest
    assert agreed.digest == told().digest
    values, crowd, odd = rows(Integers(agreed.bits), agreed.size), people(NAMES), NAMES[0]
    whole = Round(agreed, crowd)
    whole.begin()
    whole._clients[odd].terms = other
    taken = [whole.add(name, values[name].numpy()) for name in NAMES]
    assert taken == [False] + [True] * 8
    outcome = whole.finish()
    assert outcome.survivors == tuple(NAMES[1:])
    assert len(outcome.refused) == 1

    crowd = people(NAMES)
    keys = {half: Identity.new() for half in Half}
    servers = {half: HalfServer(agreed, half, keys[half], keys[half.other].public) for half in Half}
    for name, identity in crowd.items():
        for half, data in split(identity, other if name == odd else agreed, values[name].numpy()).items():
            if name == odd:  # a server that forges what it can, and more: the client's own signature
                assert not servers[half].take(name, data)
                data = from_client(identity, agreed, half.value, 0, b"", data[HEAD.size : -SIGNATURE])
            assert servers[half].take(name, data)
    present = {half: server.present() for half, server in servers.items()}
    sums = {half: server.add(present[half.other]) for half, server in servers.items()}
    joined = join(agreed, {half: key.public for half, key in keys.items()}, sums)
    exact = torch.stack(list(values.values())).long().sum(0).numpy() % 2**agreed.bits
    assert (joined.residues != exact).mean() > 0.9
