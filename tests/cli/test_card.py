"""The card of a run cannot be forged by hand: it is computed from ledger and configuration each time."""

import json
import shutil
import sys
from html import unescape

import pytest

from hush.cli import main
from hush.privacy.ledger import Ledger

QUICK = ["--data", "digits", "--model", "linear", "--clients", "40", "--rounds", "3", "--set", "scheme.accountant=rdp"]
RUNS = {
    "client": ["fl-top-dp", *QUICK, "--ratio", "0.2", "--cohort", "10", "--noise", "1"],
    "secure": ["fl-top-dp", *QUICK, "--ratio", "0.2", "--cohort", "10", "--noise", "1", "--secure"],
    "record": ["fl-standard-dp", *QUICK, "--cohort", "10", "--set", "train.batch=4", "--noise", "1"],
    "turns": ["hush-once", "--data", "digits", "--rounds", "3", "--noise", "4", "--set", "scheme.accountant=rdp"],
    "none": ["fl-std", *QUICK],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, words in RUNS.items():
            patch.setattr(sys, "argv", ["hush", "run", *words, "--out", name])
            with pytest.raises(SystemExit, match="0"):
                main()
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_an_untouched_card_is_printed_as_it_was_written(hush, runs, name):
    status, out, err = hush("privacy", "card", runs / name, "--json")
    assert status == 0, err
    assert json.loads(out) == json.loads((runs / name / "privacy.json").read_text())["card"]
    assert hush("privacy", "card", runs / name)[0] == 0
    assert hush("compare", runs / name)[0] == 0


def tenth(card, view, key):
    next(one for one in card["adversaries"] if one["name"] == view)[key] /= 10


FORGERIES = {
    "model": (lambda card: tenth(card, "model", "epsilon"), "epsilon, model"),
    "server": (lambda card: tenth(card, "server", "epsilon"), "epsilon, server"),
    "upload": (lambda card: tenth(card, "upload", "epsilon"), "epsilon, upload"),
    "median": (lambda card: tenth(card, "upload", "epsilon_median"), "epsilon, upload_median"),
    "a view is gone": (lambda card: card["adversaries"].pop(), "epsilon, upload"),
    "delta": (lambda card: card.update(delta=1e-9), "delta"),
    "delta of a view": (lambda card: card["adversaries"][0].update(delta=1e-9), "delta of model"),
    "accountant": (lambda card: card.update(accountant="pld"), "accountant"),
    "rounds": (lambda card: card.update(rounds=9), "rounds"),
    "population": (lambda card: card.update(population=4000), "population"),
    "took part": (lambda card: card["participation"].update(worst=0), "took part at most"),
    "relation": (lambda card: card.update(relation="nobody"), "relation"),
    "level": (lambda card: card.update(level="record" if card["level"] == "client" else "client"), "level"),
    "paper": (lambda card: card["paper"].update(epsilon=0.1), "epsilon, paper"),
}


@pytest.mark.parametrize("name", ["client", "record"])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_changed_card_is_refused_with_what_differs(hush, runs, tmp_path, name, forgery):
    change, what = FORGERIES[forgery]
    folder = shutil.copytree(runs / name, tmp_path / "run")
    stored = json.loads((folder / "privacy.json").read_text())
    if forgery == "paper" and not stored["card"]["paper"]:
        stored["card"]["paper"] = {"epsilon": 0.1, "how": "moments"}
    change(stored["card"])
    (folder / "privacy.json").write_text(json.dumps(stored))
    status, out, err = hush("privacy", "card", folder)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"the card says {what} " in err


SENTENCES = {
    "assumption": lambda card: card["assumptions"].pop(0),
    "assumption of ours": lambda card: card["assumptions"].append("the auditor has agreed"),
    "neighbours": lambda card: card.update(neighbours="everybody"),
    "protected": lambda card: card.update(protected="everything"),
    "who sees": lambda card: card["adversaries"][0].update(sees="the whole world"),
    "without": lambda card: card["adversaries"][0].update(without="nobody"),
    "noise source": lambda card: card.update(noise_source="the operating system"),
    "cohort": lambda card: card.update(cohort=1),
    "unnoised": lambda card: card["unnoised"].clear(),
    "secure": lambda card: card["secure"].update(protocol="full"),
    "colluding": lambda card: card["secure"].update(corrupt=0.5),
    "integers": lambda card: card["integers"].update(noise=100.0),
    "published": lambda card: card["integers"]["published"].update(epsilon=0.01),
    "a warning less": lambda card: card["warnings"].pop(),
    "no warnings": lambda card: card.pop("warnings"),
    "a warning of ours": lambda card: card["warnings"].append("all is well"),
    "the result": lambda card: card["result"].update(value=0.99),
    "the trial of the clip": lambda card: card["clipping"].update(first="some"),
    "units": lambda card: card.update(units=10**6),
    "something new": lambda card: card.update(certified="yes"),
}


@pytest.mark.parametrize("forgery", SENTENCES)
def test_changed_sentences_are_refused(hush, runs, tmp_path, forgery):
    folder = shutil.copytree(runs / "secure", tmp_path / "run")
    stored = json.loads((folder / "privacy.json").read_text())
    SENTENCES[forgery](stored["card"])
    (folder / "privacy.json").write_text(json.dumps(stored))
    status, out, err = hush("privacy", "card", folder)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "the card says" in err


def test_a_scheme_without_a_guarantee_says_why(hush, runs):
    assert "none: the updates travel without a bound" in hush("privacy", "card", runs / "none")[1]


def test_a_card_that_is_none_is_refused(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "client", tmp_path / "run")
    stored = json.loads((folder / "privacy.json").read_text())
    (folder / "privacy.json").write_text(json.dumps({**stored, "card": {"scheme": 3}}))
    status, out, err = hush("privacy", "card", folder)
    assert (status, out) == (2, "")
    assert "holds a card that cannot be read" in err


def test_a_reason_of_ones_own_is_refused(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "none", tmp_path / "run")
    stored = json.loads((folder / "privacy.json").read_text())
    stored["card"]["reason"] = "none is needed"
    (folder / "privacy.json").write_text(json.dumps(stored))
    assert hush("privacy", "card", folder)[0] == 2


def test_a_changed_page_is_refused(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "client", tmp_path / "client")
    page = folder / "report.html"
    page.write_text(page.read_text().replace("epsilon", "epsilon at most"))
    status, out, err = hush("privacy", "card", folder)
    assert (status, out) == (2, "")
    assert "report.html does not show" in err


def test_without_the_data_the_figures_are_computed_and_that_is_told(hush, runs, tmp_path, monkeypatch):
    folder = shutil.copytree(runs / "client", tmp_path / "client")
    monkeypatch.setattr("hush.experiment.population.ready", lambda wanted: False)
    status, out, err = hush("privacy", "card", folder, "--json")
    assert status == 0
    assert err == "digits is not on this machine: the card's figures were computed anew, its sentences are as stored\n"
    assert json.loads(out) == json.loads((folder / "privacy.json").read_text())["card"]
    stored = json.loads((folder / "privacy.json").read_text())
    forged = json.loads(json.dumps(stored))
    forged["card"]["warnings"].pop()
    (folder / "privacy.json").write_text(json.dumps(forged))
    status, _, err = hush("privacy", "card", folder)
    assert status == 2
    assert "the card says warnings" in err
    tenth(stored["card"], "model", "epsilon")
    (folder / "privacy.json").write_text(json.dumps(stored))
    assert hush("privacy", "card", folder)[0] == 2


def test_own_code_is_not_run_for_a_card(hush, tmp_path):
    """A run may come from a stranger."""
    own = tmp_path / "own.py"
    body = "torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, outputs))"
    own.write_text(f"import torch\ndef model(shape, outputs):\n    return {body}\n")
    words = ["--clients", "40", "--rounds", "1", "--cohort", "10", "--noise", "1", "--ratio", "0.2"]
    run = tmp_path / "run"
    assert hush("run", "fl-top-dp", "--data", "digits", "--model", f"{own}:model", *words, "--out", run)[0] == 0
    own.write_text("raise SystemExit('ran')\n")
    status, _, err = hush("privacy", "card", run)
    assert status == 0, err
    assert "is code, which is not run for this" in err


def test_a_guarantee_out_of_nothing_is_refused(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "none", tmp_path / "run")
    stored = json.loads((folder / "privacy.json").read_text())
    stored["card"] = json.loads((runs / "client" / "privacy.json").read_text())["card"]
    (folder / "privacy.json").write_text(json.dumps(stored))
    assert hush("privacy", "card", folder)[0] == 2


def test_a_ledger_ahead_of_the_card_counts_in_full(hush, runs, tmp_path):
    """As a kill in a round leaves it: what is printed is never below what was spent."""
    folder = shutil.copytree(runs / "client", tmp_path / "run")
    before = json.loads(hush("privacy", "card", folder, "--json")[1])["adversaries"]
    ledger = Ledger.load(folder / "privacy.json")
    for number in (4, 5):
        ledger.record(ledger.events[-1].__class__(**{**vars(ledger.events[-1]), "round": number}))
    status, out, err = hush("privacy", "card", folder, "--json")
    assert status == 0, err
    after = json.loads(out)["adversaries"]
    for one, other in zip(before, after, strict=True):
        assert other["epsilon"] > one["epsilon"]


def test_without_its_checkpoint_a_card_is_not_believed(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "client", tmp_path / "run")
    shutil.rmtree(folder / "checkpoint")
    status, out, err = hush("privacy", "card", folder)
    assert (status, out) == (2, "")
    assert "has no checkpoint" in err


@pytest.mark.parametrize("name", RUNS)
def test_the_page_shows_the_whole_card(runs, name):
    card = json.loads((runs / name / "privacy.json").read_text())["card"]
    text = unescape((runs / name / "report.html").read_text())
    said = [*card["unnoised"], *card.get("assumptions", []), *(one["sees"] for one in card.get("adversaries", []))]
    said += [card[key] for key in ("reason", "protected", "neighbours", "noise_source") if key in card]
    assert said
    for sentence in said:
        assert sentence in text
    assert ("Simulated: noise from a seed." in text) is (name != "none")


def test_a_page_that_shows_other_results_is_refused(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "none", tmp_path / "none")
    found = json.loads((folder / "about.json").read_text())
    found["results"]["classes"][0]["value"] = 1.0
    (folder / "about.json").write_text(json.dumps(found))
    status, out, err = hush("privacy", "card", folder)
    assert (status, out) == (2, "")
    assert "report.html does not show" in err
