"""The card of a run cannot be forged by hand: it is computed from ledger and configuration each time."""

import hashlib
import json
import math
import shutil
import sys
from html import unescape

import pytest

from hush.cli import main
from hush.experiment import audits
from hush.privacy.facts import Finding
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


def stored(card):
    """A card as the run wrote it, before it had files to name."""
    return {key: value for key, value in card.items() if key not in ("versions", "files")}


@pytest.mark.parametrize("name", RUNS)
def test_an_untouched_card_is_printed_as_it_was_written(hush, runs, name):
    status, out, err = hush("privacy", "card", runs / name, "--json")
    assert status == 0, err
    assert stored(json.loads(out)) == json.loads((runs / name / "privacy.json").read_text())["card"]
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
    "meaning": lambda card: card["adversaries"][1].update(meaning="Nothing can be learnt"),
    "helpers": lambda card: card["adversaries"][1].update(colluding=3),
    "an audit of ours": lambda card: card["audit"].append({"attack": "none", "alarm": False}),
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
    assert stored(json.loads(out)) == json.loads((folder / "privacy.json").read_text())["card"]
    before = json.loads((folder / "privacy.json").read_text())
    forged = json.loads(json.dumps(before))
    forged["card"]["warnings"].pop()
    (folder / "privacy.json").write_text(json.dumps(forged))
    status, _, err = hush("privacy", "card", folder)
    assert status == 2
    assert "the card says warnings" in err
    tenth(before["card"], "model", "epsilon")
    (folder / "privacy.json").write_text(json.dumps(before))
    assert hush("privacy", "card", folder)[0] == 2


def test_without_the_data_meanings_follow_from_the_figures_all_the_same(hush, runs, tmp_path, monkeypatch):
    folder = shutil.copytree(runs / "client", tmp_path / "client")
    (folder / "report.html").unlink()
    monkeypatch.setattr("hush.experiment.population.ready", lambda wanted: False)
    before = json.loads((folder / "privacy.json").read_text())
    meanings = [one["meaning"] for one in before["card"]["adversaries"]]
    before["card"]["adversaries"][0]["meaning"] = "nothing can be learnt"
    (folder / "privacy.json").write_text(json.dumps(before))
    status, out, _ = hush("privacy", "card", folder, "--json")
    assert status == 0
    assert [one["meaning"] for one in json.loads(out)["adversaries"]] == meanings


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
    said += [one["meaning"] for one in card.get("adversaries", [])]
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


FOUND = (
    Finding("mechanism", "model", 9.0, 0.5, 1e-5, 0.95, None, "Noise was drawn with <b>and</b> without the client."),
    Finding("canary clients", "server", 6.5, 8.25, 1e-5, 0.95, "scores are Gaussian", "A client was put in."),
    Finding("canary records", "upload", None, math.inf, 1e-5, 0.95, None, "An upload was read."),
)
ALARM = "the attack 'canary clients' shows epsilon 8.25 for the server view, and 6.50 is proven"


def test_versions_and_digests_are_those_of_the_run(hush, runs):
    card = json.loads(hush("privacy", "card", runs / "secure", "--json")[1])
    assert set(card["versions"]) == {"hush", "torch", "numpy", "python"}
    assert [one["file"] for one in card["files"]] == ["config.toml", "privacy.json", "model.safetensors"]
    page = hush("privacy", "card", runs / "secure")[1]
    for one in card["files"]:
        assert one["sha256"] == hashlib.sha256((runs / "secure" / one["file"]).read_bytes()).hexdigest()
        assert f"{one['sha256']} {one['file']}" in page


@pytest.mark.parametrize("name", ["client", "none"])
def test_an_audit_is_beside_the_proofs_and_its_alarm_above_all(hush, runs, tmp_path, name):
    folder = shutil.copytree(runs / name, tmp_path / name)
    assert "no audit was run: hush audit RUN" in hush("privacy", "card", folder)[1]
    audits.add(folder, FOUND)
    status, out, err = hush("privacy", "card", folder)
    assert status == 0, err
    lines = out.splitlines()
    assert lines[:3] == [lines[0], "", "Warnings"]
    assert lines[3].startswith(f"  - {ALARM[:60]}")
    status, out, _ = hush("privacy", "card", folder, "--json")
    card = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert [(one["stated"], one["shown"], one["alarm"]) for one in card["audit"]] == [
        (6.5, 8.25, True),
        ("none", "infinite", False),
        (9.0, 0.5, False),
    ]
    assert card["warnings"][0].startswith(ALARM)
    assert "audit.json" in [one["file"] for one in card["files"]]
    page = unescape((folder / "report.html").read_text())
    assert ALARM in page
    assert "what was looked for was recovered exactly" in page


def test_a_damaged_audit_is_refused(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "client", tmp_path / "run")
    audits.add(folder, FOUND)
    (folder / "audit.json").write_text((folder / "audit.json").read_text()[:-20])
    status, out, err = hush("privacy", "card", folder)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "audit.json is damaged" in err


@pytest.mark.parametrize("name", RUNS)
def test_the_sheet_holds_the_whole_card_and_asks_for_nothing(hush, runs, tmp_path, name):
    status, out, err = hush("privacy", "card", runs / name, "--html", tmp_path / "card.html", "--json")
    assert status == 0, err
    card, text = json.loads(out), (tmp_path / "card.html").read_text()
    for word in ("http:", "https:", "//", "<script", "@import", "url(", "src=", "href="):
        assert word not in text, word
    assert "default-src 'none'" in unescape(text)
    shown = unescape(text).replace("\xa0", " ")
    rows = card.get("adversaries", [])
    for sentence in (
        *card["warnings"],
        *card["unnoised"],
        *card.get("assumptions", []),
        *(one[key] for one in rows for key in ("sees", "helped", "meaning")),
        *(one["sha256"] for one in card["files"]),
        "no audit was run",
        "Place",
        "Date",
        "Signature",
    ):
        assert sentence in shown, sentence


def test_a_sheet_escapes_what_an_audit_says(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "client", tmp_path / "run")
    audits.add(folder, FOUND)
    hush("privacy", "card", folder, "--html", tmp_path / "card.html")
    text = (tmp_path / "card.html").read_text()
    assert "<b>and" not in text
    assert "&lt;b&gt;and" in text
    assert "class=alarm" in text


def test_a_sheet_that_cannot_be_written_is_refused(hush, runs, tmp_path):
    (tmp_path / "taken").mkdir()
    status, out, err = hush("privacy", "card", runs / "none", "--html", tmp_path / "taken")
    assert (status, out) == (2, "")
    assert "choose another file" in err


@pytest.fixture
def signed(hush, runs, tmp_path):
    """A run with a signed card, beside the kits of a federation."""
    folder = shutil.copytree(runs / "client", tmp_path / "run")
    assert hush("federation", "init", "kits", "--host", "localhost", "--site", "north")[0] == 0
    assert hush("federation", "init", "others", "--host", "localhost")[0] == 0
    status, out, err = hush("privacy", "card", folder, "--sign", "kits/coordinator")
    assert status == 0, err
    return folder, out


def test_a_signed_card_is_verified_by_certificate_kit_and_key(hush, signed, tmp_path):
    folder, printed = signed
    key = json.loads((tmp_path / "kits/north/kit.json").read_text())["server"]
    for against in ("kits/coordinator/cert.pem", "kits/coordinator", "kits/north", key):
        for place in (folder / "card.json", folder):
            status, out, err = hush("privacy", "card", place, "--verify", against)
            assert status == 0, err
            assert out == printed
            assert "signed by the owner of that key" in err
    card = json.loads((folder / "card.json").read_text())
    assert card["signed"]["key"] == key
    assert card["signed"]["simulation"] is None
    assert key in printed
    anew = json.loads(hush("privacy", "card", folder, "--json")[1])
    assert {name: value for name, value in card.items() if name != "signed"} == anew


def test_any_changed_byte_is_refused(hush, signed):
    folder, _ = signed
    for name in ("card.json", "card.sig"):
        whole = (folder / name).read_bytes()
        for place in (0, len(whole) // 3, len(whole) // 2, len(whole) - 2):
            changed = bytearray(whole)
            changed[place] ^= 1
            (folder / name).write_bytes(bytes(changed))
            status, out, err = hush("privacy", "card", folder / "card.json", "--verify", "kits/coordinator/cert.pem")
            assert (status, out, err.count("\n")) == (2, "", 1)
            assert "is not what the owner of the key" in err
        (folder / name).write_bytes(whole)
    (folder / "card.sig").unlink()
    assert hush("privacy", "card", folder / "card.json", "--verify", "kits/coordinator")[0] == 2


@pytest.mark.parametrize(
    ("against", "why"),
    [
        ("others/coordinator/cert.pem", "is not what the owner of the key"),
        ("others/coordinator", "is not what the owner of the key"),
        ("ca", "is not the certificate of a server"),
        ("kits/north/cert.pem", "is the certificate of north"),
        ("kits/coordinator/key.pem", "is not the certificate of a server"),
        ("nowhere.pem", "cannot be read"),
        ("00" * 32, "anybody can sign"),
    ],
)
def test_another_key_does_not_verify(hush, signed, against, why):
    against = "kits/coordinator/ca.pem" if against == "ca" else against
    status, out, err = hush("privacy", "card", signed[0], "--verify", against)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert why in err


def test_only_the_server_signs(hush, signed):
    folder, _ = signed
    assert "is the kit of north" in hush("privacy", "card", folder, "--sign", "kits/north")[2]
    assert "exclude each other" in hush("privacy", "card", folder, "--sign", "x", "--verify", "y")[2]
    assert "is a file" in hush("privacy", "card", folder / "card.json")[2]


def test_a_rehearsals_signature_is_called_one(hush, runs, tmp_path):
    folder = shutil.copytree(runs / "none", tmp_path / "run")
    words = ["--host", "localhost", "--site", "north", "--simulation", "1"]
    assert hush("federation", "init", "kits", *words)[0] == 0
    status, out, err = hush("privacy", "card", folder, "--sign", "kits/coordinator")
    assert status == 0, err
    assert "a rehearsal's, which everybody can make" in " ".join(out.split())
