import json
from dataclasses import replace

from privacy.known import FACTS, RECORDS, SUMMED, WHOLE

from hush.parts.stages import CorrelatedNoise, PoissonBinomial
from hush.privacy.card import card, render


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
        "moments, cohorts taken as Poisson: 1.01",
        "simulation seed: not a deployment",
        "sized for at least 80 clients",
        "the test accuracy, on data that the server holds",
        "it could read single uploads",
    ):
        assert words in page
    assert max(map(len, page.splitlines())) <= 100
    assert len(page.splitlines()) < 85
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


def test_the_card_of_records_says_what_is_protected_and_on_which_assumptions():
    found = json.loads(json.dumps(card(RECORDS)))
    page = " ".join(render(found).split())
    for words in (
        "differential privacy, record level",
        "one record of one client, in all rounds together",
        "Neighbours add or remove one record of one client",  # by the batches, whatever the cohorts
        "1 step a round, poisson batches: a record of the smallest client is in with probability 0.3731",
        "2 clipped gradients change with it",
        "sizes of the clients' data, the batch size and the divisors are public",
        "a person with several records is protected only record by record",
        "no trust in other clients",
        "takes its partner with it, or lets another one in",
        "the noise counts 1/2",
        "the paper counts one",
        "may show which clients took part",
        "one clipped gradient changed by it: 1.05",
        "by pld: 3.78; this is not proven",
        "named below",
    ):
        assert words in page, words
    assert "noise share" not in page
    assert "honest and add" not in page
    assert found["records"] == {
        "batch": 300 / 804,
        "steps": 1,
        "reach": 2,
        "batches": "poisson",
        "epsilon_unnoticed": 3.772,
    }
    assert max(map(len, render(found).splitlines())) <= 100
    assert len(render(found).splitlines()) < 85


def test_what_does_not_hold_of_a_run_is_not_on_its_card():
    page = render(card(replace(RECORDS, reach=1, steps=4, batches="fixed", unnoticed_epsilon=None)))
    page = " ".join(page.split())
    assert "replace one record of one client" in page
    assert "4 steps a round, fixed batches" in page
    assert "partner" not in page
    assert "Assumed" not in page
    assert "not proven" not in page
    unproven = render(card(replace(RECORDS, batches="fixed", accountant="rdp", unnoticed_epsilon=None)))
    assert "not proven" in " ".join(unproven.split())
    assert "records" not in card(FACTS)


def test_what_one_client_knows_of_the_noise_is_counted():
    assert "sqrt((m - 1)/m) of the stated noise, 99.4 % for 100" in " ".join(render(card(FACTS)).split())
    assert "of the stated noise, 0 % for 1" in " ".join(card(replace(FACTS, cohort=1.2))["assumptions"])


def test_a_trusted_server_is_said():
    page = render(card(replace(FACTS, trusted=True)))
    assert "the server is trusted" in page
    for words in ("add their noise shares", "knows its own noise share", "looks at the sum alone"):
        assert words not in page
        assert words in render(card(FACTS))


def test_coins_are_said():
    assert "tosses a fair coin" in render(card(replace(FACTS, noise_assumptions=PoissonBinomial(1.0).assumptions)))
    assert "tosses a fair coin" not in render(card(FACTS))


def test_a_claim_that_does_not_hold_is_the_papers_own():
    """No guarantee, the reason, and the paper's figure beside it as what it is."""
    claimed = replace(FACTS, private=False, reason="bits travel as they are", paper_epsilon=0.0645, paper_how="ln")
    made = card(claimed)
    assert (made["guarantee"], made["paper"]) == ("none", {"epsilon": 0.0645, "how": "ln"})
    page = render(made)
    assert "none: bits travel as they are. No epsilon can be stated." in page
    assert "The paper's  0.065: ln" in page
    assert "paper" not in card(replace(FACTS, private=False, paper_epsilon=None))


def test_whole_noise_and_a_secure_sum_are_described():
    found = json.loads(json.dumps(card(SUMMED)))
    assert found["secure"] == {"protocol": "simulated", "servers": 1, "corrupt": 0.1}
    assert found["integers"] == {
        "kind": "skellam",
        "bits": 12,
        "steps": 267.868,
        "size": 8317,
        "l2": 272.297,
        "noise": 1.54,
        "loss": 0.01654,
        "sized_for": 0.8,
        "published": {"epsilon": 0.77337, "how": "RDP of Skellam noise (Agarwal, Kairouz, Liu 2021)"},
    }
    page = " ".join(render(found).split())
    for words in (
        "Secure sum one server, simulated: added without masks; made for up to 10% of a cohort, rounded up, that"
        " collude with the server",
        "Integers Skellam, 1.54 times the bound; 8317 numbers of 12 bits on a grid of 267.868 steps to the bound,"
        " 272.3 after rounding, which adds 1.7% to the noise",
        "shares are sized for 80% of a cohort, and fewer abort the round",
        "Published RDP of Skellam noise (Agarwal, Kairouz, Liu 2021): 0.78, model view",
        "secure aggregation shows it the sum alone",
        "masks were left out in this simulation; a test holds the sum bit-identical",
        "colluding: at most 10% of a cohort, rounded up, reveal their noise shares to the server; server: nobody does",
        "upload none none whoever took the mask off a single upload",
    ):
        assert words in page, words
    for words in ("could read single uploads", "how many shares there are", "two servers do not"):
        assert words not in page, words
    assert max(map(len, render(found).splitlines())) <= 100
    assert len(render(found).splitlines()) < 85


def test_what_is_not_whole_or_not_secure_says_nothing_of_it():
    plain = card(replace(FACTS, corrupt=0.1, tolerance=0.2))
    assert not {"secure", "integers"} & set(plain)
    page = render(plain)
    for words in ("Secure sum", "Integers", "Published", "masks", "collud"):
        assert words not in page, words
    assert card(replace(SUMMED, integers=replace(WHOLE, published_epsilon=None)))["integers"]["published"] is None
    assert "Published" not in render(card(replace(SUMMED, integers=replace(WHOLE, published_epsilon=None))))
    endless = card(replace(SUMMED, integers=replace(WHOLE, published_epsilon=float("inf"))))
    assert endless["integers"]["published"]["epsilon"] == "none"


def test_the_whole_protocol_two_servers_and_the_other_noise():
    page = " ".join(
        render(
            card(replace(SUMMED, secure="full", servers=2, corrupt=0.0, integers=replace(WHOLE, kind="gaussian")))
        ).split()
    )
    assert "two servers, the whole protocol was run" in page
    assert "the two servers do not share" in page
    assert "discrete Gaussian, 1.54 times" in page
    assert "reveals, if only just, how many shares there are" in page
    assert "RDP of summed discrete Gaussians" in page
    for words in ("masks were left out", "reveal their noise shares to the server", "simulated"):
        assert words not in page, words


def test_secure_sums_of_records_of_a_trusted_server_and_without_noise():
    """Records rely on no sum; a trusted server sees no single update any more; and none stays none."""
    page = " ".join(render(card(replace(RECORDS, secure="simulated"))).split())
    assert "no epsilon here relies on it" in page
    assert "is counted as if it saw what each sends" in page
    assert "masks were left out" in page
    assert "noise shares" not in page
    trusted = " ".join(render(card(replace(SUMMED, trusted=True, integers=None))).split())
    assert "It sees the sum of the clipped updates, and adds the noise itself" in trusted
    assert "masks were left out" in trusted
    assert "noise shares" not in trusted
    bare = card(replace(SUMMED, private=False, paper_epsilon=None, integers=None))
    assert (bare["guarantee"], bare["secure"]["protocol"]) == ("none", "simulated")
    assert "Secure sum" in render(bare)


def test_turns_that_are_public():
    """The models' readers know them too; nothing is said of secret cohorts or of the papers' sampling."""
    facts = replace(FACTS, sampling="once", cohort=250.0, rounds=24, participation_worst=1, participation_median=1.0)
    found = card(facts)
    assert found["relation"] == "add or remove one client"
    assert found["paper"] is None
    page = render(found)
    assert "24, 250 of 6000 clients a round, by turns that are public" in page
    assert found["adversaries"][0]["sees"].endswith("whose turn it is in which round is public")
    words = " ".join(found["assumptions"])
    assert "each client pays for its own turns alone" in words
    assert {row["without"] for row in found["adversaries"]} == {"the client sends zeros and its share of the noise"}
    assert "nobody outside the server learns who was drawn" not in words
    assert "takes back" not in words


def test_correlated_noise_names_who_must_keep_it():
    facts = replace(FACTS, sampling="once", trusted=True, noise_assumptions=CorrelatedNoise(1.0, 4).assumptions)
    words = " ".join(card(facts)["assumptions"])
    assert "The server keeps what it drew secret, releases no round twice, and every client keeps to its turn" in words
    assert "the server is trusted" in words
    assert "noise share" not in words
    assert {row["without"] for row in card(facts)["adversaries"]} == {"the client sends zeros"}


def test_neighbours_are_those_of_the_proofs():
    """A client that is removed is never drawn, for readers of the models; at the server it sends zeros and noise."""
    zeros, other = "the client sends zeros and its share of the noise", "the client sends another client's update"
    stated = {
        "poisson": ("add or remove one client", "the client is never drawn", zeros),
        "fixed": ("replace one client by another", "another client is drawn in its place", other),
        "once": ("add or remove one client", zeros, zeros),
    }
    for sampling, (relation, model, server) in stated.items():
        found = card(replace(FACTS, sampling=sampling))
        rows = {row["name"]: row["without"] for row in found["adversaries"]}
        assert rows["model"] == model
        assert rows["server"].startswith(server)
        assert rows["server"] == rows["upload"]
        assert "stays registered" not in render(found)
        page = " ".join(render(found).split())
        assert f"Neighbours {relation}. " in page
        assert model in page
        assert rows["server"] in page


def test_floating_point_is_named_where_noise_is_continuous():
    for facts in (FACTS, RECORDS, replace(FACTS, trusted=True), replace(RECORDS, secure="simulated")):
        assert "floating point" in render(card(facts))
    assert "floating point" not in render(card(SUMMED))
    assert "floating point" not in render(card(replace(FACTS, floating=PoissonBinomial(1.0).floating)))


def test_what_is_assumed_of_dropouts():
    plain = " ".join(card(FACTS)["assumptions"])
    assert "the released noise has one variance, whoever was drawn and whoever answered" in plain
    assert "drops out with probability" not in plain
    declared = " ".join(card(replace(SUMMED, dropout=0.1, slack=3e-9))["assumptions"])
    assert "a drawn client drops out with probability 0.1 at most, independently of the others" in declared
    assert "3e-09 a round, is charged to delta" in declared
    assert "no client drops out of a secure sum" in " ".join(card(SUMMED)["assumptions"])
