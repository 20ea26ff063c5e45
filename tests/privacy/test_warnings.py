"""Each warning comes where it must, one step further it does not, and it says what to do."""

import pytest

from hush.privacy.warnings import warnings

RESULT = {"measure": "accuracy", "round": 5, "value": 0.5, "guess": 0.1, "needed": 0.12, "larger": True}
CLIPPING = {"bound": 0.5, "trials": 32, "first": "some", "last": "some", "tuned": False}
SOUND = {
    "guarantee": "differential privacy, client level",
    "level": "client",
    "population": 100,
    "units": 100,
    "delta": 1e-3,
    "adversaries": [
        {"name": "model", "epsilon": 10.0},
        {"name": "server", "epsilon": 10.0},
        {"name": "colluding", "epsilon": 10.0},
        {"name": "upload", "epsilon": 20.0},
    ],
    "result": RESULT,
    "clipping": CLIPPING,
}


def against(**epsilons):
    return {"adversaries": [{"name": name, "epsilon": value} for name, value in epsilons.items()]}


def test_nothing_is_said_of_a_sound_run_at_the_very_bounds():
    assert warnings(SOUND) == []


@pytest.mark.parametrize(
    ("changed", "what", "remedy"),
    [
        ({"population": 99}, "99 clients are few", "let more clients take part"),
        ({"delta": 0.01}, "delta 0.01 is not below 1/100, one over the number of clients", "at most 0.001"),
        (against(model=10.1), "epsilon is 10.10 against whoever receives the models, above 10", "a smaller epsilon"),
        (against(server=26.95), "epsilon is 26.95 against the server, above 10", "--sampling once"),
        (against(colluding=11), "11.00 against the server with colluding clients", "--sampling once"),
        (against(upload=20.1), "a single upload has epsilon 20.10, above 20", "add --secure"),
        (against(upload="none"), "a single upload has no guarantee", "add --secure"),
        ({"result": {**RESULT, "value": 0.12}}, "accuracy 0.120 on the test rows is not better", "more rounds"),
        (
            {"result": {**RESULT, "measure": "RMSE", "value": 3.0, "guess": 3.0, "needed": 3.0, "larger": False}},
            "RMSE 3.000 on the test rows is not better than always giving the same answer, 3.000",
            "more rounds",
        ),
        (
            {"clipping": {**CLIPPING, "first": "nobody", "last": "nobody"}},
            "the clip bound 0.5 clips nobody of 32 clients made up of test rows",
            "a smaller --clip",
        ),
        (
            {"clipping": {**CLIPPING, "first": "everybody", "last": "everybody"}},
            "the clip bound 0.5 clips everybody of 32 clients made up of test rows",
            "a larger --clip",
        ),
        (
            {"clipping": {**CLIPPING, "first": "everybody", "last": "everybody", "adaptive": True}},
            "a bound that adapts has not come as far as the updates yet",
            "more rounds",
        ),
    ],
)
def test_one_step_further_is_warned_of_with_a_remedy(changed, what, remedy):
    (said,) = warnings({**SOUND, **changed})
    assert what in said
    assert remedy in said.partition(";")[2]
    assert said.count(";") == 1
    assert not said.endswith(".")


@pytest.mark.parametrize(
    "changed",
    [
        {**against(upload=500.0), "secure": {"protocol": "simulated"}},
        {"result": None, "clipping": None},
        {"result": {**RESULT, "value": 2.9, "guess": 3.0, "needed": 3.0, "larger": False}},
        {"clipping": {**CLIPPING, "first": "everybody"}},
        {"clipping": {**CLIPPING, "first": "everybody", "last": "everybody", "tuned": True}},
        {"level": "record", "population": 3},
    ],
)
def test_what_is_no_reason_to_worry(changed):
    assert warnings({**SOUND, **changed}) == []


def test_records_are_counted_as_records():
    (said,) = warnings({**SOUND, "level": "record", "population": 3, "units": 2000, "delta": 1e-3})
    assert "not below 1/2000, one over the number of records" in said
    assert "at most 0.0001" in said
    (said,) = warnings(
        {**SOUND, "level": "record", "clipping": {**CLIPPING, "first": "nobody", "last": "nobody"}, "delta": 1e-3}
    )
    assert "of 32 test rows" in said
    assert "adaptive" not in said  # which is for clients alone


def test_a_scheme_without_a_guarantee_is_judged_by_its_result_alone():
    card = {"guarantee": "none", "population": 3, "result": {**RESULT, "value": 0.1}}
    assert [said.partition(" on ")[0] for said in warnings(card)] == ["accuracy 0.100"]
