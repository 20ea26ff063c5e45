import math
from dataclasses import replace

import numpy as np
import pytest

from hush.errors import Mistake
from hush.privacy.accountants import epsilon, gaussian_epsilon
from hush.privacy.events import Event, releases
from hush.privacy.views import Participation, model_epsilon, paper_epsilon, views

DELTA = 1e-5
EVENT = Event(round=1, noise=1.54, share=0.154, rate=1 / 60, sampling="poisson")


def played(event, cohorts, clients=5):
    events, participation = [], Participation(clients)
    for number, members in enumerate(cohorts, 1):
        events.append(replace(event, round=number))
        participation.add(events[-1], members)
    return events, participation


def test_each_adversary_gets_its_own_epsilon():
    events, participation = played(EVENT, [[0, 1], [0, 2], [0, 1]])
    found = views(events, participation, DELTA)
    assert list(found) == ["model", "server", "server_median", "upload", "upload_median"]
    assert found["model"] == epsilon(releases(events), DELTA)
    assert found["server"] == pytest.approx(5.02, abs=0.005)
    assert found["server_median"] == pytest.approx(2.67, abs=0.005)
    assert found["upload"] == pytest.approx(gaussian_epsilon(math.sqrt(3) / 0.154, DELTA))
    assert found["upload_median"] == pytest.approx(gaussian_epsilon(1 / 0.154, DELTA))
    assert (participation.worst(), participation.median()) == (3, 1.0)


def test_secure_aggregation_leaves_no_upload_to_see():
    events, participation = played(EVENT, [[0, 1]])
    assert list(views(events, participation, DELTA, secure=True)) == ["model", "server", "server_median"]


def test_fixed_cohorts_count_a_replaced_client():
    events, participation = played(replace(EVENT, sampling="fixed"), [[0], [0], [0]])
    found = views(events, participation, DELTA)
    assert found["server"] == pytest.approx(gaussian_epsilon(2 * math.sqrt(3) / 1.54, DELTA))
    events = [replace(EVENT, sampling="fixed", round=t) for t in range(1, 201)]
    assert round(model_epsilon(events, DELTA), 2) == 3.35
    assert round(model_epsilon(events, DELTA, proven=False), 2) == 3.10
    assert round(paper_epsilon(events, DELTA), 2) == 1.00


def test_a_client_that_never_came_spent_nothing_at_the_server():
    events, participation = played(EVENT, [[0]])
    assert views(events, participation, DELTA)["server_median"] == 0.0


@pytest.mark.parametrize("accountant", ["moments", "rdp", "pld"])
def test_without_a_guarantee_every_view_says_none(accountant):
    nothing = views([], Participation(3), DELTA, accountant)
    assert set(nothing.values()) == {"none"}
    events, participation = played(replace(EVENT, noise=0.0, share=0.0), [[0, 1, 2]])
    assert set(views(events, participation, DELTA, accountant).values()) == {"none"}


def test_the_higher_middle_client_is_the_median():
    events, participation = played(EVENT, [[2, 3]], clients=4)
    assert views(events, participation, DELTA)["server_median"] == pytest.approx(2.67, abs=0.005)


def test_the_vote_costs_but_is_no_training_round():
    participation = Participation(2)
    participation.add(replace(EVENT, round=0, label="vote", rate=1.0), [0, 1])
    assert participation.worst() == 0
    assert participation.server.tolist() == pytest.approx([1 / 1.54**2] * 2)


def test_participation_survives_a_checkpoint():
    _, participation = played(EVENT, [[0, 1], [1]])
    again = Participation.of(participation.state())
    again.add(EVENT, [4])
    assert participation.rounds.tolist() == [1, 2, 0, 0, 0]
    assert again.rounds.tolist() == [1, 2, 0, 0, 1]
    np.testing.assert_array_equal(again.upload[:4], participation.upload[:4])
    np.testing.assert_array_equal(again.server[:4], participation.server[:4])


def test_slack_is_paid_out_of_delta():
    clean = [replace(EVENT, round=t) for t in range(1, 51)]
    slack = 5e-8
    events = [replace(e, slack=slack) for e in clean]
    found = model_epsilon(events, DELTA)
    left = DELTA - math.exp(found) * 50 * slack
    assert found > model_epsilon(clean, DELTA)
    assert epsilon(releases(events), left) <= found
    assert epsilon(releases(events), left) == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("slack", [1e-5, 2e-6])
def test_too_much_slack_leaves_no_guarantee(slack):
    """The second leaves delta - slack positive at epsilon 0 and nothing at the epsilon that it needs."""
    events, participation = played(replace(EVENT, slack=slack, noise=0.3, rate=0.5), [[0]])
    assert model_epsilon(events, DELTA) == math.inf
    assert views(events, participation, DELTA)["model"] == "none"


def test_mistakes():
    with pytest.raises(Mistake, match="clients=0"):
        Participation(0)
    with pytest.raises(Mistake, match="members must be numbers from 0 to 4"):
        Participation(5).add(EVENT, [5])
    with pytest.raises(Mistake, match="mixed"):
        views([EVENT, replace(EVENT, sampling="fixed")], Participation(2), DELTA)


ONCE = replace(EVENT, noise=3.731, share=0.5, rate=1.0, sampling="once")


def test_who_has_one_turn_pays_for_one_release():
    """However many rounds there are: against the models' readers as against the server."""
    events, participation = played(ONCE, [[0], [1], [2], [3], [4]])
    found = views(events, participation, DELTA)
    assert found["model"] == found["server"] == found["server_median"] == gaussian_epsilon(1 / 3.731, DELTA)
    assert 0.999 < found["model"] <= 1
    assert model_epsilon(events, DELTA) == pytest.approx(gaussian_epsilon(math.sqrt(5) / 3.731, DELTA))  # a bound


def test_passes_compose():
    events, participation = played(ONCE, [[0, 1], [2, 3, 4]] * 3)
    assert views(events, participation, DELTA)["model"] == pytest.approx(gaussian_epsilon(math.sqrt(3) / 3.731, DELTA))
    events, participation = played(ONCE, [[0, 1], [2, 3, 4], [0, 1]])  # the second pass has begun
    found = views(events, participation, DELTA)
    assert found["model"] == found["server"] == pytest.approx(gaussian_epsilon(math.sqrt(2) / 3.731, DELTA))
    assert found["server_median"] == gaussian_epsilon(1 / 3.731, DELTA)


def test_noise_of_a_trusted_server_holds_in_the_models_alone():
    events, participation = played(replace(ONCE, server=0.0, share=0.0), [[0], [1], [2], [3], [4]])
    found = views(events, participation, DELTA)
    assert found["model"] == gaussian_epsilon(1 / 3.731, DELTA)
    assert (found["server"], found["upload"]) == ("none", "none")


def test_a_turn_that_was_taken_by_nobody_knows_whom_is_everybodys():
    """After a kill the ledger may be ahead of the participations; or it holds another training."""
    events, participation = played(ONCE, [[0], [1]])
    events.append(replace(ONCE, round=3))
    twice = gaussian_epsilon(math.sqrt(2) / 3.731, DELTA)
    found = views(events, participation, DELTA)
    assert found["model"] == found["server"] == pytest.approx(twice)
    assert found["server_median"] == gaussian_epsilon(1 / 3.731, DELTA)  # of whom nobody knows another turn
    participation.catch_up(events)  # how many answered is lost as well: against the server a single share is left
    found = views(events, participation, DELTA)
    assert found["model"] == pytest.approx(twice)
    mu = math.sqrt(1 / 3.731**2 + 1 / ONCE.share**2)
    assert found["server"] == pytest.approx(gaussian_epsilon(mu, DELTA))


def test_turns_survive_a_checkpoint():
    events, participation = played(ONCE, [[0, 1], [2], [0, 1]])
    again = Participation.of(participation.state())
    assert views(events, again, DELTA) == views(events, participation, DELTA)
    _, drawn = played(EVENT, [[0, 1]])
    assert "model" not in drawn.state()  # checkpoints of before stay as they were


def test_turns_and_draws_do_not_mix():
    with pytest.raises(Mistake, match="sampling=once and poisson are mixed"):
        views([EVENT, ONCE], Participation(2), DELTA)


def test_the_server_with_colluding_clients():
    """Its own view: worst client and median, between server and upload; without a secure sum there is none."""
    events, participation = played(replace(EVENT, colluding=1.2), [[0, 1], [0, 2], [0, 1]])
    found = views(events, participation, DELTA)
    assert list(found) == [
        "model", "server", "server_median", "colluding", "colluding_median", "upload", "upload_median"
    ]  # fmt: skip
    assert found["colluding"] == pytest.approx(gaussian_epsilon(math.sqrt(3) / 1.2, DELTA))
    assert found["colluding_median"] == pytest.approx(gaussian_epsilon(1 / 1.2, DELTA))
    assert found["server"] < found["colluding"] < found["upload"]
    again = Participation.of(participation.state())
    assert views(events, again, DELTA) == found
    open_, participation = played(replace(EVENT, colluding=0.0), [[0, 1]])
    assert views(open_, participation, DELTA)["colluding"] == "none"


RECORD = Event(round=1, noise=1.08, share=1.08, rate=1.0, sampling="fixed", level="record", steps=2, batch=0.3, reach=2)


@pytest.mark.parametrize("done", [0, 2])
def test_records_of_an_unfinished_round_are_charged(done: int):
    """The ledger is one event ahead of the books, as after Ctrl-C: all views charge it, with steps, reach and rate."""
    cohorts = [list(range(5))] * (done + 1)
    events, whole = played(RECORD, cohorts)
    _, behind = played(RECORD, cohorts[:done])
    for books in (whole, behind):
        books.probabilities = np.full(5, 0.3)
    found = views(events, behind, DELTA)
    assert found == views(events, whole, DELTA)
    assert found["server"] == pytest.approx(found["model"], rel=1e-6)
    assert behind.charged == done
