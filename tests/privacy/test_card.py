import json
from dataclasses import replace

from hush.privacy.card import Facts, card, render

FACTS = Facts(
    scheme="fl-top-dp",
    private=True,
    rounds=200,
    delta=1e-5,
    accountant="pld",
    sampling="fixed",
    population=6000,
    cohort=100,
    epsilon={
        "model": 3.0972,
        "server": 21.5,
        "server_median": 8.25,
        "upload": "none",
        "upload_median": "none",
    },
    participation_worst=12,
    participation_median=3.0,
    assumptions=("shares are sized for at least 80 clients of a cohort",),
    unnoised=("the public batch", "the test accuracy, on data that the server holds"),
    paper_epsilon=1.0006,
)


def test_the_page_states_every_adversary_and_its_conditions():
    page = render(json.loads(json.dumps(card(FACTS))))
    rows = {line.split()[0]: line.split()[1:3] for line in page.splitlines() if line}
    assert rows["model"][0] == "3.10"
    assert rows["server"] == ["21.50", "8.25"]
    assert rows["upload"] == ["none", "none"]
    for words in (
        "Privacy card: fl-top-dp",
        "client level, delta 1e-05, pld accountant",
        "replace one client by another",
        "200, 100 of 6000 clients a round, fixed sampling",
        "at most 12 rounds, median 3",
        "moments, cohorts taken as Poisson: 1.00",
        "simulation seed: not a deployment",
        "sized for at least 80 clients",
        "the test accuracy, on data that the server holds",
        "it could read single uploads",
    ):
        assert words in page
    assert max(map(len, page.splitlines())) <= 100
    assert len(page.splitlines()) < 60
    assert "not proven" not in page
    assert "not proven" in render(card(replace(FACTS, accountant="rdp")))


def test_the_json_names_level_delta_and_rounds_per_adversary():
    found = card(FACTS)
    assert found["level"] == "client"
    assert found["relation"] == "replace one client by another"
    assert [row["name"] for row in found["adversaries"]] == ["model", "server", "upload"]
    assert all((row["delta"], row["accountant"], row["rounds"]) == (1e-5, "pld", 200) for row in found["adversaries"])


def test_secure_aggregation_is_an_assumption_in_place_of_the_upload_row():
    found = card(replace(FACTS, epsilon={"model": 0.68, "server": 5.0, "server_median": 2.0}, sampling="poisson"))
    page = render(found)
    assert "secure aggregation shows it the sum alone" in page
    assert "upload  " not in page
    assert "not proven" not in page
    assert "add or remove one client" in page


def test_the_papers_accounting_is_not_repeated_beside_itself():
    assert card(replace(FACTS, sampling="poisson", accountant="moments"))["paper"] is None
    assert card(replace(FACTS, sampling="poisson"))["paper"]["epsilon"] == 1.0006
    assert card(replace(FACTS, paper_epsilon=None))["paper"] is None
    assert card(replace(FACTS, paper_epsilon=float("inf")))["paper"]["epsilon"] == "none"


def test_no_guarantee_is_none_with_the_reason_and_no_number():
    found = card(replace(FACTS, scheme="fl-top", private=False, delta=None, paper_epsilon=None))
    page = render(found)
    assert found["guarantee"] == "none"
    assert "none: the updates travel without a bound and without noise" in page
    assert "3.10" not in page
    assert "21.5" not in page
    assert "epsilon" not in found
    assert "adversaries" not in found
