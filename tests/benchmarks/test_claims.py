"""Goals: what a number that others disturbed may not say, and which numbers make which claim."""

import pytest
from claims import Claim, claims, final, pairs, quotients


def result(name, seconds, cores=1, before=False, others=0.0, rss=100.0, **more):
    """A contender with one round in each turn."""
    turns = [{"seconds": [each], "cpu": each, "others": others, "rss": rss, **more} for each in seconds]
    return {"name": name, "cores": cores, "before": before, "rss": 50.0, "turns": turns}


def test_a_number_that_is_not_final_is_neither_met_nor_missed():
    assert Claim("x", 2.0, 1.0, True).verdict == "met"
    assert Claim("x", 0.5, 1.0, True).verdict == "missed"
    assert Claim("x", 0.5, 1.0, False).verdict == "met"
    for value in (0.5, 2.0):
        assert Claim("x", value, 1.0, True, final=False).verdict == "not final"


def test_final_is_a_tenth_of_a_core_in_every_turn():
    quiet, noisy = result("a", [1, 1], others=0.1), result("b", [1, 1])
    noisy["turns"][1]["others"] = 0.11
    assert final(quiet)
    assert not final(noisy)
    assert not final(quiet, noisy)


def test_quotients_are_within_a_turn():
    assert quotients(result("a", [2, 9]), result("b", [1, 3])) == [2, 3]


def test_either_side_of_a_quotient_disturbs_it():
    loop, mine = result("loop", [10.0]), result("hush fl-top-dp", [5.0])
    assert [claim.verdict for claim in claims({"cnn": [loop, mine]})] == ["met"]
    for noisy in (loop, mine):
        noisy["turns"][0]["others"] = 0.5
        assert [claim.verdict for claim in claims({"cnn": [loop, mine]})] == ["not final"]
        noisy["turns"][0]["others"] = 0.0


def test_goals_beside_peers():
    names = ("fl-std", "fl-std-dp", "fl-top-dp")
    rows = [result("loop", [10.0]), *(result(f"hush {name}", [6.0]) for name in names)]
    rows += [result(f"hush {name}", [3.0], 2) for name in names]
    rows += [result(name, [9.0], 2) for name in ("pfl", "pfl x 2", "FedJAX jit", "Flower, 100 nodes")]
    linear = [result("hush fl-std-dp", [0.01]), result("pfl", [0.4]), result("FedJAX jit", [0.2])]
    found = {claim.text: claim for claim in claims({"cnn": rows, "linear": linear})}
    goals = [(claim.value, claim.goal, claim.verdict) for claim in found.values()]
    assert goals == [
        (0.6, 0.6, "met"),
        (0.6, 0.85, "met"),
        *[(2.0, 1.8, "met")] * 3,
        (3.0, 2.0, "met"),
        (3.0, 2.0, "met"),
        (3.0, 3.5, "missed"),
        (pytest.approx(20.0), 30, "missed"),  # the fastest peer, not pfl
    ]
    assert "linear, one core: the fastest peer (FedJAX jit) takes of hush fl-std-dp" in found


def test_goals_beside_the_other_commit():
    results = {
        "recommended": [result("hush", [9.0, 9.0], before=True), result("hush", [3.0, 3.6])],
        "medical": [
            *(result("hush fl-std-dp", [10.0], before=True), result("hush fl-std-dp", [2.0])),
            *(result("hush fl-top-dp", [10.0], before=True), result("hush fl-top-dp", [6.0], rss=103.0)),
        ],
        "secure": [
            result("hush, secure sum", [9.0], before=True, client=0.1),
            result("hush, secure sum", [1.0], client=0.11),
        ],
    }
    found = claims(results)
    assert [(round(claim.value, 3), claim.verdict) for claim in found] == [
        (round((1 / 3 + 0.4) / 2, 3), "missed"),
        (1.0, "met"),
        (5.0, "met"),
        (1.0, "met"),
        (1.667, "missed"),
        (1.03, "missed"),  # memory: 2 % are left to chance
        (1.1, "missed"),  # of the client's CPU, whatever the whole sum takes
        (1.0, "met"),
    ]
    assert found[0].spread == pytest.approx((1 / 3, 0.4))
    assert all(not mine["before"] and other["before"] for rows in results.values() for mine, other in pairs(rows))


def test_without_another_commit_nothing_is_said_of_one():
    assert claims({"recommended": [result("hush", [3.0])], "medical": [result("hush fl-std-dp", [3.0])]}) == []


def test_bytes_are_final_whoever_used_the_cores():
    sizes = {"kB up": 5.9, "kB down": 16.1}
    found = claims({"secure": [result("hush, integers", [1.0], 2, others=1.5, **sizes)]})
    assert [(claim.value, claim.verdict) for claim in found] == [(5.9, "met"), (16.1, "missed")]
