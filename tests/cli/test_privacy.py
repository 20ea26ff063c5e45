import json

import pytest
from typer.testing import CliRunner

from hush.cli.privacy import app
from hush.errors import Mistake
from hush.privacy.card import Facts, card
from hush.privacy.ledger import Ledger

EPSILON = "epsilon --noise 1.54 --rate 1/60 --rounds 200 --delta 1e-5"
NOISE = "noise --epsilon 1 --rate 1/60 --rounds 200 --delta 1e-5"


def call(line, *more):
    return CliRunner().invoke(app, [*line.split(), *more])


def answer(line, *more):
    result = call(line, *more, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


@pytest.mark.parametrize(("accountant", "expected"), [("moments", 1.00), ("pld", 0.68)])
def test_epsilon_as_json(accountant, expected):
    found = answer(EPSILON, "--accountant", accountant)
    assert round(found["epsilon"], 2) == expected
    assert (found["delta"], found["accountant"], found["rate"]) == (1e-5, accountant, 1 / 60)
    assert found["relation"] == "add or remove one client"


def test_epsilon_for_people():
    result = call(EPSILON)
    assert result.stdout == "epsilon 0.68 at delta 1e-05, pld: model view, add or remove one client\n"


def test_fixed_cohorts_state_the_proven_bound_as_well():
    found = answer(EPSILON, "--sampling", "fixed")
    assert (round(found["epsilon"], 2), round(found["epsilon_worst_known"], 2)) == (3.35, 3.10)
    assert call(EPSILON, "--sampling", "fixed").stdout.endswith("the worst case known has 3.10\n")


def test_no_noise_says_none():
    assert answer("epsilon --noise 0 --rate 0.5 --rounds 3 --delta 1e-5")["epsilon"] == "none"


@pytest.mark.parametrize(("accountant", "expected"), [("moments", 1.54), ("pld", 1.225)])
def test_noise_as_json(accountant, expected):
    found = answer(NOISE, "--accountant", accountant)
    assert found["noise"] == pytest.approx(expected, abs=0.01)
    assert 0.99 < found["epsilon"] <= 1
    assert (found["delta"], found["accountant"]) == (1e-5, accountant)


def test_noise_for_people():
    assert call(NOISE).stdout.startswith("noise 1.225 gives epsilon 1.00 at delta 1e-05, pld: model view")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--noise", "-1"),
        ("--delta", "1"),
        ("--delta", "0"),
        ("--rate", "0"),
        ("--rate", "1.5"),
        ("--rate", "1/0"),
        ("--rate", "often"),
        ("--rounds", "0"),
        ("--accountant", "guess"),
        ("--sampling", "often"),
    ],
)
def test_a_mistake_is_one_sentence(option, value):
    result = call(EPSILON, option, value)
    assert isinstance(result.exception, Mistake)
    assert str(result.exception).startswith(f"{option[2:]}={value} ")
    assert "\n" not in str(result.exception)
    assert result.stdout == ""


def test_the_card_of_a_run(tmp_path):
    facts = Facts("fl-std", False, 3, None, "pld", "poisson", 10, 5)
    Ledger(tmp_path / "privacy.json").write_card(card(facts))
    assert "none: the updates travel without a bound" in call("card", str(tmp_path)).stdout
    assert answer("card", str(tmp_path)) == card(facts)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read"),
        ("{", "not a whole ledger"),
        ('{"events": [], "card": null}', "has no card yet"),
        ('{"events": [], "card": {"scheme": 3}}', "holds a card that cannot be read"),
    ],
)
def test_a_run_without_a_card_is_a_mistake(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "privacy.json").write_text(content)
    result = call("card", str(tmp_path))
    assert isinstance(result.exception, Mistake)
    assert sentence in str(result.exception)
