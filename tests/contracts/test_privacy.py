"""What a run spends: in the ledger before anything leaves, more with every round, "none" without noise."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
import torch

from contracts.parts import Watch, run
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.protocols import Source, Stage
from hush.core.spec import Multipliers, Plan, Spec
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation.loopback import Loopback
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import Clip, Noise
from hush.privacy.ledger import Ledger
from hush.privacy.views import Participation, views
from hush.random.seeds import SecretSeed

VIEWS = {"model", "server", "server_median", "upload", "upload_median"}
SAMPLINGS = {"fixed": Fixed(5), "poisson": Poisson(0.4)}


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_epsilon_grows(private: Entry, sampling: str, task: Task, settings: Settings) -> None:
    settings = replace(settings, sampling=SAMPLINGS[sampling], noise=2.0)
    reports = run(private.scheme(settings), task, 4)
    assert all(set(report.epsilon) == VIEWS for report in reports)
    spent = [report.epsilon["model"] for report in reports]
    assert all(0 < before < after for before, after in pairwise(spent))
    if private.name == "dp-fedavg":  # whose server is trusted
        assert {reports[0].epsilon[view] for view in ("server", "upload")} == {"none"}
        return
    for view in VIEWS:
        seen = [report.epsilon[view] for report in reports]
        assert all(before <= after for before, after in pairwise(seen))
    assert reports[0].epsilon["server"] > reports[0].epsilon["model"]
    assert reports[0].epsilon["upload"] > reports[0].epsilon["server"]


def test_no_noise_is_none(open_entry: Entry, task: Task, settings: Settings) -> None:
    ledger = Ledger()
    for report in run(open_entry.scheme(settings), task, 2, ledger=ledger):
        assert report.epsilon == dict.fromkeys(VIEWS, "none")
    assert ledger.events == ()


def test_a_noisy_vote_does_not_protect_bare_updates(task: Task, settings: Settings) -> None:
    """Whoever sees updates without noise has learned all: the vote's epsilon is no guarantee of the run."""
    scheme = ENTRIES["fl-top"].scheme(replace(settings, vote=1.0))
    with pytest.raises(Mistake, match="vote"):
        run(scheme, task, 2)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_event_is_written_first(private: Entry, sampling: str, task: Task, settings: Settings, tmp_path) -> None:
    """When the transport is asked, the round's event is in the ledger and on disk."""
    settings = replace(settings, sampling=SAMPLINGS[sampling])
    path = tmp_path / "privacy.json"

    class OnDisk(Watch):
        def collect(self, *arguments):
            written.append([event.round for event in Ledger.load(path).events])
            return super().collect(*arguments)

    written: list[list[int]] = []
    watch = OnDisk(ledger=Ledger(path))
    scheme = private.scheme(settings)
    run(scheme, task, transport=watch, ledger=watch.ledger)
    assert [[event.round for event in held] for held in watch.held] == [[1], [1, 2], [1, 2, 3]]
    assert written == [[1], [1, 2], [1, 2, 3]]
    for event, plan, cohort in zip(watch.ledger.events, watch.plans, watch.cohorts, strict=True):
        assert event.noise == settings.noise
        found = scheme.source.multipliers(scheme.specs(scheme.width(plan), plan.clip)[-2], plan, plan.floor or 1)
        assert (event.share, event.noise if event.server is None else event.server) == (found.upload, found.server)
        if isinstance(scheme.source, Noise):
            assert event.share == pytest.approx(settings.noise / len(cohort) ** 0.5)
        assert event.rate == pytest.approx(5 / 12 if sampling == "fixed" else 0.4)
        assert (event.sampling, event.label) == (sampling, "update")
        assert plan.floor == (0 if private.name == "dp-fedavg" else len(cohort))  # which relies on nobody's share


def test_vote_has_its_own_event(task: Task, settings: Settings) -> None:
    watch = Watch()
    scheme = ENTRIES["fl-top-dp"].scheme(replace(settings, vote=0.5))
    run(scheme, task, 2, transport=watch, ledger=watch.ledger)
    assert [(e.round, e.label, e.noise) for e in watch.ledger.events] == [
        (0, "vote", 0.5),
        (1, "update", 0.8),
        (2, "update", 0.8),
    ]
    assert [len(held) for held in watch.held] == [1, 2, 3]


def test_vote_costs_what_it_says(task: Task, settings: Settings) -> None:
    """The run with a vote has spent what the same rounds and one release more would."""
    spent = {vote: run(ENTRIES["fl-top-dp"].scheme(replace(settings, vote=vote)), task, 2)[-1] for vote in (None, 0.5)}
    assert spent[0.5].epsilon["model"] > spent[None].epsilon["model"]


@pytest.mark.parametrize("transport", [Simulated, Loopback])
def test_a_round_goes_on_with_whoever_answers(entry: Entry, transport, task: Task, settings: Settings) -> None:
    """A dropout aborts no plain round, whatever the tolerance: an abort would show who was drawn."""
    scheme = entry.scheme(replace(settings, sampling=Fixed(12, tolerance=0.25)))
    ledger = Ledger()
    lost = transport(lost=lambda round, client: round == 2 and client < 7)
    one, two, three = run(scheme, task, transport=lost, ledger=ledger)
    assert not any(report.aborted for report in (one, two, three))
    assert (one.cohort, two.cohort, three.cohort) == (12, 5, 12)
    assert [event.round for event in ledger.events] == ([1, 2, 3] if entry.private else [])
    if entry.private:
        assert len({event.noise for event in ledger.events}) == 1


def test_a_cohort_below_the_floor(private: Entry, task: Task, settings: Settings) -> None:
    """The transport is not asked; the event is there all the same."""
    scheme = private.scheme(replace(settings, sampling=Fixed(5, floor=6)))
    watch = Watch()
    (report,) = run(scheme, task, 1, transport=watch, ledger=watch.ledger)
    assert report.aborted
    assert watch.plans == []
    assert torch.equal(report.state.weights, flatten(task.model))
    assert len(watch.ledger.events) == 1


def test_an_abort_by_chance_is_charged_to_delta(private: Entry, task: Task, settings: Settings) -> None:
    scheme = private.scheme(replace(settings, sampling=Poisson(0.4, floor=1)))
    event = scheme.event(Plan(1, flatten(task.model), None, 4.8, 5.0), task)
    assert event is not None
    # one client decides when no other was drawn; of coins there are too few places with a probability below 1e-7
    assert event.slack == pytest.approx(0.4 * 0.6**11, abs=1e-7)


def test_empty_cohorts_of_open_schemes_move_nothing(open_entry: Entry, task: Task, settings: Settings) -> None:
    """Poisson sampling may draw nobody; a run goes on."""
    sampling = Poisson(0.25)
    seed = next(s for s in range(999) if not len(sampling.draw(12, SecretSeed.simulated(s), 1)))
    (report,) = run(open_entry.scheme(replace(settings, sampling=sampling)), task, 1, seed)
    assert (report.cohort, report.aborted) == (0, open_entry.name == "two-bit")  # which needs p - 1 clients
    assert torch.equal(report.state.weights, flatten(task.model))


def test_views_count_each_round_for_its_members(private: Entry, task: Task, settings: Settings) -> None:
    """The server's view is the worst client's: recomputed from the cohorts that the transport saw."""
    watch = Watch()
    reports = run(private.scheme(settings), task, transport=watch, ledger=watch.ledger)
    joined = Participation(task.clients)
    for event, cohort in zip(watch.ledger.events, watch.cohorts, strict=True):
        joined.add(event, cohort)
    assert reports[-1].epsilon == views(watch.ledger.events, joined, 1e-5, "rdp")


@dataclass(frozen=True)
class Uniform(Stage):
    """A noise stage of one's own: what it is worth is its author's to say."""

    def spec(self, s: Spec) -> Spec:
        return replace(s, noise=0.5)

    def encode(self, x, ctx):
        return x + torch.rand_like(x)

    def decode(self, total, ctx):
        return total


class Stated(Uniform, Source):
    shared = True

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        return Multipliers(0.5, 0.4, 0.1)


def test_a_noise_stage_of_ones_own(task: Task, settings: Settings) -> None:
    """It is charged as it says; one that does not say is refused."""
    scheme = ENTRIES["fl-std-dp"].scheme(settings)
    ledger = Ledger()
    run(replace(scheme, stages=(Clip(0.3), Stated())), task, 1, ledger=ledger)
    (event,) = ledger.events
    assert (event.noise, event.server, event.share) == (0.5, 0.4, 0.1)
    with pytest.raises(Mistake, match="what it is worth"):
        run(replace(scheme, stages=(Clip(0.3), Uniform())), task, 1)
