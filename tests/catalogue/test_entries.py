"""Entries of the catalogue: private forms around their own stages, and which settings a scheme listens to."""

from dataclasses import replace

import pytest

from hush.catalogue.entries import ENTRIES, scheme
from hush.catalogue.forms import SHARES, Entry
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.errors import Mistake
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip, Noise, Sense
from hush.parts.trainers import Ridge, Sgd

SETTINGS = Settings(noise=1.0, clip=Clip(1.0))


def test_a_private_form_keeps_all_stages_of_its_own() -> None:
    for entry in (*ENTRIES.values(), replace(ENTRIES["top-k-ef"], protection=SHARES)):
        if entry.level == "client":
            assert entry.example.stages[:-2] == entry.build(SETTINGS).stages
    assert [type(stage) for stage in ENTRIES["fl-cs-dp"].example.stages] == [Sense, Clip, Noise]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("fl-std", "leave Weigh out"),
        ("two-bit", "Clip after a code"),
        ("qsgd", "Clip after a code"),
        ("fl-sign", "Clip after a code"),
        ("centralized", "protect nobody"),
        ("standalone", "clients that send nothing"),
    ],
)
def test_what_a_private_form_cannot_keep_is_refused(name: str, why: str, task: Task) -> None:
    """It is not dropped, nor is its compression."""
    private = replace(ENTRIES[name], protection=SHARES)
    settings = replace(SETTINGS, sampling=Fixed(8), precision=4, bits=None)
    with pytest.raises(Mistake, match=why):
        private.scheme(settings).check(task)


def test_which_settings_an_entry_has() -> None:
    assert ENTRIES["fl-top"].has("ratio")
    assert not ENTRIES["fl-std"].has("ratio")
    assert ENTRIES["two-bit"].has("follow")
    assert ENTRIES["qsgd"].has("bits")


def test_a_function_listens_to_what_it_reads() -> None:
    """A number of its own in a part is none that a setting could change."""
    entry = Entry("own", "", lambda k: Scheme(Sgd(0.1, k.steps, 5), Fixed(5), stages=(Clip(k.gamma),)))
    listens = ("steps", "gamma", "average", "downlink_bits", "momentum", "server_rate")
    assert all(entry.has(name) for name in listens)
    assert not any(entry.has(name) for name in ("rate", "batch", "epochs", "clip", "noise", "sampling", "ratio"))


def test_what_an_entry_protects_is_what_its_scheme_protects() -> None:
    for entry in ENTRIES.values():
        assert entry.level == entry.example.level == ("client" if entry.protection else entry.build(SETTINGS).level)
    fixed = Entry("own", "", lambda k: Scheme(k.sgd(), k.cohorts(), stages=(Clip(1.0), Noise(2.0))))
    assert (fixed.level, fixed.sampling.kind) == ("client", "poisson")


def test_blocks_follow_the_rounds() -> None:
    """Each has as many visits as usual; who has few rounds has one block."""
    entry = ENTRIES["hush"]
    usual = entry.usual["blocks"], entry.usual["rounds"]
    assert usual[0] > 1
    for times in (1, 2, 3):
        assert entry.usually((), times * usual[1])["blocks"] == times * usual[0]
    assert entry.usually((), usual[1] // usual[0])["blocks"] == 1
    assert entry.usually((), 1)["blocks"] == 1
    assert entry.usually(())["blocks"] == usual[0]


def test_who_sets_steps_has_no_ridge_solve() -> None:
    assert isinstance(scheme("hush", noise=1.0).trainer, Ridge)
    for given in ({"steps": 3}, {"epochs": 1}):
        assert isinstance(scheme("hush", noise=1.0, **given).trainer, Sgd)
    assert isinstance(scheme("hush", noise=1.0, steps=3, ridge=2.0).trainer, Ridge)
    assert ENTRIES["hush"].usually(("rate",))["ridge"] == ENTRIES["hush"].usual["ridge"]
