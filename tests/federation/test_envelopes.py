"""What comes over the wire: whatever the bytes, the answer is a sentence, and no code, file or memory of the reader."""

import contextlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from safetensors.torch import save

from hush.errors import Mistake, Refused
from hush.experiment import config, federated
from hush.experiment import server as hosting
from hush.experiment.brief import MOST, Brief, brief
from hush.experiment.client import Office
from hush.experiment.consent import described
from hush.experiment.federated import Federated
from hush.experiment.offer import offered, opened
from hush.experiment.rules import Rules
from hush.federation import coordinator, envelopes, kit
from hush.federation.charter import Charter
from hush.federation.envelopes import HEAD, Kind, greeting
from hush.federation.policy import Policy
from hush.federation.site import Site
from hush.federation.sites import Sites
from hush.secure.keys import Identity

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([0, 1, -1, 2**31, 2**40, 1e308, 5e-324, math.nan])
)
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(), st.sampled_from(["\x1b[2J", "../../etc/passwd", "\ud800"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


@dataclass(frozen=True)
class Offered:
    """A charter of an honest server, and a site's kit that it is for."""

    own: kit.Kit
    server: kit.Kit
    charter: Charter
    body: bytes

    @property
    def parts(self) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        return envelopes.unseal_tensors(self.body)

    def changed(self, **change: Any) -> dict[str, str]:
        """The texts of a charter that differs in this."""
        return {**self.parts[1], "charter": replace(self.charter, **change).json}


@pytest.fixture(scope="module")
def offer(tmp_path_factory: pytest.TempPathFactory) -> Offered:
    folder = tmp_path_factory.mktemp("kits")
    own = coordinator.init(folder, "localhost", sites=["a", "b", "c"])
    tables = {
        "scheme": {"name": "fl-top-dp", "ratio": 0.1, "noise": 1.0, "clip": 0.5},
        "data": {"name": "digits"},
        "sampling": {"kind": "fixed", "cohort": 3},
        "run": {"rounds": 2, "seed": 7},
    }
    ready = federated.prepared(config.parse(tables, "test"))
    experiment = Federated({"a": 1, "b": 1, "c": 1}, False, False).resolve(ready)
    charter = hosting._charter(experiment, brief(ready, "lockstep"), own, kit.roster(own), "", folder / "none")
    body = envelopes.unseal(offered(charter, experiment.task.problem, own)).body
    return Offered(kit.read(folder / "a"), own, charter, body)


def mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """With a few bytes changed, cut off or added."""

    def change(edits: list[tuple[int, int]], end: int, more: bytes) -> bytes:
        found = bytearray(data)
        for place, value in edits:
            found[place % len(found)] = value
        return bytes(found[: end % (len(found) + 1)] if end else found) + more

    edit = st.tuples(st.integers(0, 2**20), st.integers(0, 255))
    return st.builds(change, st.lists(edit, max_size=8), st.one_of(st.just(0), st.integers(1, 2**20)), st.binary())


@given(
    st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda body: HEAD.pack(b"hush", 1, 16, 0) + body))
)
def test_an_envelope_is_one_or_refused(data):
    try:
        found = envelopes.unseal(data)
        assert len(found.sentence) <= envelopes.LONGEST
        assert found.sentence.isprintable()
        assert isinstance(found.facts, dict)
    except Refused:
        pass


@given(st.data())
def test_a_charter_s_bytes_are_tensors_or_refused(offer, data):
    body = data.draw(st.one_of(st.binary(max_size=200), mutated(offer.body)))
    with contextlib.suppress(Refused):  # anything else fails; what is opened is the charter that was sent
        assert opened(offer.own, *envelopes.unseal_tensors(body)).charter == offer.charter


@given(name=st.sampled_from([*Charter.__dataclass_fields__]), value=ANYTHING)
@example("server", "no hexadecimal digits")
@example("records", 2**70)
@example("weights", "\x1b[2J")
@example("problem", "NaN")
def test_a_charter_with_another_field(offer, name, value):
    """Its text is what a hostile server would write: all else is right."""
    fields = {**json.loads(offer.charter.json), name: value}
    tensors, texts = offer.parts
    for text in (json.dumps(fields), json.dumps(fields, sort_keys=True, separators=(",", ":"))):
        try:
            found = opened(offer.own, tensors, {**texts, "charter": text})
            assert described(found, Rules()).isascii()
        except Refused:
            pass


@given(name=st.sampled_from([*Brief.__dataclass_fields__]), value=ANYTHING)
@example("share", math.nan)
@example("inputs", [2**31, 2**31])
@example("inputs", [2**70])
@example("inputs", [10**9])
@example("outputs", 10**9)
@example("classes", -5)
@example("vocabulary", [1, 2])
@example("model", "../../etc/passwd.py:main")
@example("loss", "/tmp/any.py:\x1b[2J")
@example("engine", "\ud800")
def test_a_problem_with_another_field(offer, name, value):
    fields = {**json.loads(offer.charter.problem), name: value}
    text = json.dumps(fields, separators=(",", ":"))
    tensors, _ = offer.parts
    with contextlib.suppress(Refused):  # anything else fails; what is opened is the problem as it stands there
        assert opened(offer.own, tensors, offer.changed(problem=text)).brief.json == text


@hypothesis_settings(max_examples=300)
@given(st.data())
def test_a_scheme_with_another_number(offer, data):
    """Read, shown and held against rules: refused in words, or harmless."""
    scheme = json.loads(offer.charter.scheme)
    places = [(part, key) for part in _objects(scheme) for key in part if key != "part"]
    part, key = data.draw(st.sampled_from(places))
    value = data.draw(st.one_of(NUMBERS, ANYTHING))
    part[key] = float(value) if type(value) is int and type(part[key]) is float and abs(value) < 2**63 else value
    try:
        text = json.dumps(scheme, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return
    tensors, _ = offer.parts
    with contextlib.suppress(Refused, Mistake):
        found = opened(offer.own, tensors, offer.changed(scheme=text))
        assert described(found, Rules(Policy(noise=1.0))).isascii()
        assert found.scheme.to_json() == text


def _objects(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        yield found
    for one in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from _objects(one)


@pytest.mark.parametrize(
    "tensors",
    [
        {"inputs": torch.zeros(3, 64, dtype=torch.bfloat16), "targets": torch.zeros(3, dtype=torch.int64)},
        {"inputs": torch.zeros(0, 2**40), "targets": torch.zeros(0, dtype=torch.int64)},
        {"inputs": torch.zeros(3, 64), "targets": torch.zeros(3, dtype=torch.bool)},
        {"inputs": torch.zeros(()), "targets": torch.zeros(())},
        {"targets": torch.zeros(3)},
        {
            "starts": torch.tensor([0, 1]),
            "columns": torch.tensor([2**30], dtype=torch.int32),
            "values": torch.ones(1),
            "targets": torch.zeros(1, dtype=torch.int64),
            "width": torch.tensor([2**40]),
        },
        {
            "starts": torch.zeros(0, dtype=torch.int64),
            "columns": torch.zeros(0, dtype=torch.int32),
            "values": torch.zeros(0),
            "targets": torch.zeros(0),
            "width": torch.tensor([1, 2]),
        },
    ],
)
def test_a_public_batch_of_another_form(offer, tensors):
    """Of another type, of no rows, or of a width that would fill the memory when it is made dense."""
    with pytest.raises(Refused, match="public batch did not arrive"):
        opened(offer.own, *envelopes.unseal_tensors(save(tensors, metadata=offer.parts[1])))


def test_a_model_that_would_fill_the_memory_is_not_made(offer):
    for inputs, outputs in (([10**8], 1000), ([MOST], MOST), ([1, 2**14, 2**14], 10)):
        problem = replace(Brief.read(offer.charter.problem), inputs=inputs, outputs=outputs, model="mlp")
        with pytest.raises(Refused, match=r"weights|too large"):
            problem.problem(None)


def test_code_is_never_sent_and_no_file_but_the_operator_s_is_run(offer, tmp_path):
    """A charter may name a function of the one file that the operator has read, and of no other."""
    evil, own = tmp_path / "evil.py", tmp_path / "own.py"
    evil.write_text("raise SystemExit('run')\n")
    own.write_text("def model(shape, outputs):\n    return None\n")
    problem = replace(Brief.read(offer.charter.problem), model=f"{evil}:main")
    for code in (None, own):
        with pytest.raises(Refused, match="code, which is never sent"):
            problem.problem(None, code)
    loss = replace(Brief.read(offer.charter.problem), loss=f"{evil}:main")
    with pytest.raises(Refused, match="code, which is never sent"):
        loss.problem(None, own)


SCHEMA = {
    "table": {"path": "/etc/passwd", "client": "house", "label": "died"},
    "features": {"numeric": {"years": {"min": 0.0, "max": 100.0}}, "vocabulary": "/etc/passwd"},
}


def test_a_schema_s_paths_are_not_followed(offer, tmp_path):
    """Neither its table's nor its vocabulary's: the table is the site's."""
    own = tmp_path / "own.csv"
    own.write_text("house,years,died\n" + "".join(f"h,{20 + k},{k % 2}\n" for k in range(10)))
    plain = {**SCHEMA, "features": {"numeric": SCHEMA["features"]["numeric"]}}
    known = replace(Brief.read(offer.charter.problem), schema=plain, shape=[1], classes=2, featured=False)
    assert len(known.rows(own, tmp_path)) == 10
    with pytest.raises(Refused, match="schema is none"):
        replace(known, schema=SCHEMA).rows(own, tmp_path)
    for field in ("label", "patient"):
        asked = {**plain, "table": {**plain["table"], field: "hiv"}}
        assert "hiv" in replace(known, schema=asked).used
    kept = {"exclude": {"hiv": [1]}, "min_age": 3.0, "age": "born", "stay": "days"}
    assert {"hiv", "born", "days"} <= set(replace(known, schema={**plain, "keep": kept}).used)


def test_a_number_of_records_is_told_by_one_set_of_rules(offer, tmp_path):
    """Ever other rules would make each number of records an exact answer about single patients."""
    own = tmp_path / "own.csv"
    own.write_text("house,years,died\n" + "".join(f"h,{20 + k},{k % 2}\n" for k in range(10)))
    plain = {**SCHEMA, "features": {"numeric": SCHEMA["features"]["numeric"]}}
    known = replace(Brief.read(offer.charter.problem), schema=plain, shape=[1], classes=2, featured=False)
    other = replace(known, schema={**plain, "keep": {"age": "years", "min_age": 29.0}})

    def office(look: bool = False) -> Office:
        return Office(offer.own, own, Rules(), lambda event, **facts: None, look=look)

    assert office().join({"problem": known.json, "records": True}) == {"records": 10}
    assert office().join({"problem": other.json, "records": False}) == {"records": None}
    with pytest.raises(Refused, match="other rules keep than before"):
        office().join({"problem": other.json, "records": True})
    assert office(look=True).join({"problem": other.json, "records": True}) == {"records": 1}
    assert office().join({"problem": known.json, "records": True}) == {"records": 10}


def test_what_is_shown_of_a_charter_is_at_the_site_s_own_delta_and_with_the_vote(offer):
    tensors, texts = offer.parts
    honest = described(opened(offer.own, tensors, texts), Rules())
    loose = described(opened(offer.own, tensors, offer.changed(delta=0.99)), Rules())
    lines = [[line for line in text.splitlines() if line.startswith("epsilon")] for text in (honest, loose)]
    assert lines[0] == lines[1]
    assert all("at delta 1e-05" in line for line in lines[0])
    assert "rules      refused by this site's policy: the noise is worth" in described(
        opened(offer.own, tensors, texts), Rules(Policy(noise=3.0))
    )
    assert "not computed" in described(opened(offer.own, tensors, offer.changed(rounds=2**32 - 1)), Rules())


def _facts(offer: Offered, process: str = "p") -> dict[str, Any]:
    proof = Identity(offer.own.identity_seed).sign(greeting(offer.own.federation, "a", process)).hex()
    return {"version": "1", "process": process, "proof": proof}


def _server(offer: Offered) -> tuple[Sites, list[tuple[str, dict[str, Any]]]]:
    said: list[tuple[str, dict[str, Any]]] = []
    keys = {one.name: one.key for one in kit.roster(offer.server)}
    return Sites(keys, offer.own.federation, "1", b"", lambda event, **facts: said.append((event, facts))), said


@given(st.lists(st.tuples(st.integers(0, 24), st.one_of(st.binary(), ANYTHING)), max_size=6), st.booleans())
def test_a_server_hears_anything(offer, messages, known):
    """Nothing of it raises, and what it says of it is short and harmless to a terminal."""
    sites, said = _server(offer)
    if known:
        sites.heard("a", envelopes.seal(Kind.HELLO, _facts(offer)))
    for kind, body in messages:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        for site in ("a", "nobody"):
            sites.heard(site, HEAD.pack(b"hush", 1, kind, 0) + content)
            sites.heard(site, content)
    for _, facts in said:
        assert all(len(str(value)) < 600 and str(value).isprintable() for value in facts.values())


@given(st.dictionaries(st.sampled_from(["version", "process", "proof", "charter", "records", "second"]), ANYTHING))
def test_a_hello_of_any_kind(offer, facts):
    sites, said = _server(offer)
    sites.heard("a", envelopes.seal(Kind.HELLO, facts))
    sites.heard("a", envelopes.seal(Kind.HELLO, {**facts, **_facts(offer)}))
    for kind in (Kind.JOIN, Kind.ACCEPT, Kind.DECLINE):
        sites.heard("a", envelopes.seal(kind, facts))
    for _, one in said:
        assert all(len(str(value)) < 600 and str(value).isprintable() for value in one.values())


@given(st.lists(st.tuples(st.integers(14, 24), st.one_of(st.binary(), ANYTHING)), max_size=6))
def test_a_site_hears_anything(offer, messages):
    """It goes on, or ends with one sentence."""
    said: list[str] = []
    office = Office(offer.own, None, Rules(by_rule=True), lambda event, **facts: None)
    site = Site(offer.own, office, "1", lambda event, **facts: said.extend(str(value) for value in facts.values()))
    for kind, body in messages:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        site.heard("server", HEAD.pack(b"hush", 1, kind, 0) + content)
        site.heard("b", content)
    while not site._inbox.empty():
        try:
            site._handle(site._inbox.get())
        except Mistake as why:
            said.append(str(why))
    assert all(one.isprintable() and len(one) < 600 for one in said)


def test_a_process_in_whose_place_another_came_is_told(offer):
    sites, said = _server(offer)
    sent: list[bytes] = []
    sites.send = lambda site, data: bool(sent.append(data)) or True
    for process in ("first", "second", "first"):
        sites.heard("a", envelopes.seal(Kind.HELLO, _facts(offer, process)))
    assert [event for event, _ in said] == ["hello", "hello", "refused"]
    assert "another process came after it" in envelopes.unseal(sent[-1]).sentence


def test_who_may_connect(offer, tmp_path):
    """By its certificate, before any message: on the roster, and with the key that is there."""
    sites, said = _server(offer)
    sites.admit(offer.own.certificate.read_bytes())
    coordinator.init(tmp_path, "localhost", sites=["a", "z"])
    for name, why in (("a", "not the key"), ("z", "not on the roster")):
        with pytest.raises(Refused, match=why):
            sites.admit((tmp_path / name / "cert.pem").read_bytes())
    for text in (b"", b"nothing", Path(offer.own.key).read_bytes()):
        with pytest.raises(Refused):
            sites.admit(text)
    assert [event for event, _ in said] == ["refused"] * 5
