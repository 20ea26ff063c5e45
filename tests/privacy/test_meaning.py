"""What is said of an epsilon follows from it, and no sentence promises more than the number."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from privacy.known import FACTS, RECORDS, SUMMED
from scipy.stats import norm

from hush.privacy.accountants import gaussian_epsilon
from hush.privacy.card import card, render
from hush.privacy.meaning import guess, meaning, of_accountant, of_delta, one_in, percent, question


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0, 8.0, 800.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
def test_the_bound_is_that_of_the_mechanism_that_attains_it(epsilon, delta):
    """Randomised response that is truthful with probability delta: no pair of worlds is easier to distinguish."""
    right = delta + (1 - delta) * float(1 / (1 + np.exp(-epsilon)))
    assert guess(epsilon, delta) == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-7, 1e-5, 1e-2, 0.3])
def test_the_best_guess_at_a_gaussian_is_within_the_bound(mu, delta):
    assert norm.cdf(mu / 2) <= guess(gaussian_epsilon(mu, delta), delta) + 1e-12


def test_the_bound_holds_for_any_pair_of_the_guarantee():
    """Of random pairs, epsilon as it is at a delta; the best guess is half of one plus their total variation."""
    rng = np.random.default_rng(3)
    grid, tight = np.linspace(0, 30, 3001), 0
    for _ in range(300):
        one, other = (rng.dirichlet(np.full(3, 0.6)) for _ in range(2))
        delta, factor = float(rng.uniform(1e-4, 0.2)), np.exp(grid)[:, None]
        needed = np.maximum(*(np.maximum(p - factor * q, 0).sum(1) for p, q in ((one, other), (other, one))))
        enough = np.flatnonzero(needed <= delta)
        epsilon = float(grid[enough[0]]) if enough.size else math.inf
        right = (1 + np.abs(one - other).sum() / 2) / 2
        assert right <= guess(epsilon, delta) + 1e-12
        tight += right > guess(epsilon, delta) - 0.02
    assert tight > 10


def test_percentages_and_odds_are_never_too_small():
    assert [percent(value) for value in (0.5, 0.7311, 0.73, 0.9999, 1.0)] == [
        "50 %",
        "73.2 %",
        "73 %",
        "100 %",
        "100 %",
    ]
    assert [one_in(delta) for delta in (1e-5, 1e-3, 3e-4, 0.3)] == [
        "1 in 100,000",
        "1 in 1,000",
        "1 in 3,333",
        "1 in 3",
    ]
    assert of_delta(1e-5).startswith("1e-05, 1 in 100,000: ")
    for value in np.random.default_rng(0).uniform(0.5, 1, 5000):
        assert float(percent(value).removesuffix(" %")) >= 100 * value - 1e-6


@pytest.mark.parametrize(
    ("epsilon", "median", "said", "little"),
    [
        (0.0, None, "at most 50.1 % with what is seen", False),
        (1.0, None, "at most 73.2 % with what is seen", False),
        (3.0, 1.0, "at most 95.3 % with what is seen (about the middle client: at most 73.2 %)", False),
        (4.5, None, "at most 99 % with what is seen", False),
        (4.6, None, "at most 99.1 % with what is seen", True),
        (21.5, 8.25, "nearly 100 % with what is seen (about the middle client: nearly 100 %)", True),
    ],
)
def test_sentences(epsilon, median, said, little):
    found = meaning("whether it rains", 1e-5, epsilon, median)
    assert found.startswith(f"A guess whether it rains is right in 50 % of cases at first, and in {said}")
    assert found.endswith("promises next to nothing") is little


def test_no_guarantee_is_said_as_such():
    assert guess("none", 1e-5) == guess(math.inf, 1e-5) == 1
    assert meaning("whether it rains", 1e-5, "none", "none") == (
        "Nothing is promised: a guess whether it rains may be right in all cases"
    )


def test_what_is_guessed_is_what_the_worlds_differ_in():
    assert question("model", "poisson") == "whether a given client took part"
    assert "another one in its place" in question("model", "fixed")
    for view in ("server", "colluding", "upload"):  # they know who took part
        assert "took part" not in question(view, "poisson")
        assert "another client's" in question(view, "fixed")
    assert question("model", "once") == question("server", "once")
    assert "record or another one in its place" in question("model", "poisson", "fixed", "record")
    assert "another" not in question("server", "fixed", "poisson", "record")


@pytest.mark.parametrize("facts", [FACTS, RECORDS, SUMMED, replace(FACTS, sampling="once"), replace(FACTS, delta=0.01)])
def test_no_epsilon_without_its_meaning(facts):
    """Each row has its sentence, in which stands what its own numbers give; so has delta, and the accountant."""
    found = card(facts)
    page = " ".join(render(found).split())
    for row in found["adversaries"]:
        assert row["guess"] == guess(row["epsilon"], row["delta"])
        said = "all cases" if row["guess"] == 1 else "nearly 100 %" if row["guess"] > 0.999 else percent(row["guess"])
        assert said in row["meaning"]
        assert row["meaning"] in page
        assert row["helped"] in page
    assert one_in(facts.delta) in page
    assert of_accountant(facts.accountant) in page


def test_how_many_clients_collude():
    rows = {row["name"]: row for row in card(SUMMED)["adversaries"]}
    assert (rows["model"]["colluding"], rows["server"]["colluding"], rows["upload"]["colluding"]) == (0, 0, "any")
    together = replace(SUMMED, cohort=95, epsilon={**SUMMED.epsilon, "colluding": 9.0, "colluding_median": 4.0})
    (row,) = (row for row in card(together)["adversaries"] if row["name"] == "colluding")
    assert row["colluding"] == 10  # a tenth of 95, rounded up
    assert "that is 10 of 95" in row["helped"]
    assert {row["colluding"] for row in card(RECORDS)["adversaries"]} == {"any"}


def test_a_model_view_without_a_guarantee_says_why():
    aborts = replace(SUMMED, epsilon={**SUMMED.epsilon, "model": "none"}, slack=0.00028)
    row = card(aborts)["adversaries"][0]
    assert "one client decides it with probability 0.00028 a round" in row["meaning"]
    assert "why" not in card(replace(aborts, slack=0.0))["adversaries"][0]
    assert "why" not in card(SUMMED)["adversaries"][0]


def test_a_card_without_a_guarantee_has_no_number_and_says_what_that_means():
    page = render(card(replace(FACTS, private=False, paper_epsilon=None)))
    assert "nothing bounds what may be learnt" in page
    assert "%" not in page


def test_turns_are_counted_in_words():
    page = render(card(replace(FACTS, sampling="once", cohort=43.3333, participation_worst=1)))
    assert "about 43 of 6000 clients" in page
    assert "at most 1 round, median 3 (half of all clients took part in no more)" in page


def test_the_table_of_the_guide():
    text = (Path(__file__).parents[2] / "docs/guides/privacy-officer.md").read_text()
    rows = re.findall(r"^\| ([0-9.]+)(?: and more)? \| [^|]+ \| ([0-9.]+ %) \|", text, re.MULTILINE)
    assert [epsilon for epsilon, _ in rows] == ["0.1", "1", "3", "8", "20"]
    for epsilon, said in rows:
        assert percent(guess(float(epsilon), 1e-5)) == said
