"""A charter: the same text at every member, and nothing else is taken for one."""

import json
from dataclasses import replace

import pytest

from hush.errors import Refused
from hush.federation.charter import Charter


def test_there_and_back(federation):
    made = federation()
    found = Charter.read(made.charter.json)
    assert found == made.charter
    assert found.digest == made.charter.digest
    assert found.decoded() == made.scheme


def test_every_term_is_in_the_digest(federation):
    charter = federation().charter
    for name, value in json.loads(charter.json).items():
        other = value + "x" if isinstance(value, str) else value + 1
        assert replace(charter, **{name: other}).digest != charter.digest, name


@pytest.mark.parametrize("change", ["{}", "[]", "", "nonsense", '{"run": 1}'])
def test_what_is_no_charter(change):
    with pytest.raises(Refused, match="no charter"):
        Charter.read(change)


def test_one_spelling(federation):
    """Two texts of one charter would have two digests."""
    text = federation().charter.json
    for other in (json.dumps(json.loads(text)), text.replace('"delta":1e-05', '"delta":0.00001')):
        assert other != text
        with pytest.raises(Refused, match="not written as hush writes it"):
            Charter.read(other)
    with pytest.raises(Refused, match="another type"):
        Charter.read(text.replace('"population":12', '"population":"12"'))


@pytest.mark.parametrize(
    "text", ["", "[" * 800 + "]" * 800, "[" * 100_000, '{"part":"Clip","bound":1.0}', '{"part":"os:system"}', "NaN"]
)
def test_a_scheme_that_cannot_be_read_is_refused(federation, text):
    """What a server sends is no mistake of the client's user, and no crash."""
    with pytest.raises(Refused, match="scheme is refused"):
        replace(federation().charter, scheme=text).decoded()


def test_impossible_numbers_in_a_scheme_are_refused(federation):
    charter = federation().charter
    with pytest.raises(Refused, match="must be positive"):
        replace(charter, scheme=charter.scheme.replace('"bound":0.5', '"bound":-0.5')).decoded()
