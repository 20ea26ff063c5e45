import io

import pytest
from rich.console import Console

from hush.errors import Mistake
from hush.experiment.report import runs, table


def shown(drawn, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(drawn)
    return console.file.getvalue()


def words(text):
    return " ".join(text.split())


def test_summary_states_accuracy_bytes_and_epsilon(make, line):
    rows = [line(199), line(200, best_accuracy=0.81, best_round=150)]
    text = words(shown(table.summary(runs.read(make(rows=rows, total=200))), 160))
    assert "fl-top-dp on digits, 2 of 200 rounds" in text
    assert "accuracy, last 0.700 round 200" in text
    assert "accuracy, best 0.810 round 150" in text
    assert "kB up per client 112.0 mean; payload 110.0 (at most 440.0), protocol 2.00 (at most 8.00)" in text
    assert "epsilon, server 2.67 delta 1e-5; median client 0; knows who took part and sees the sum" in text


def test_summary_tells_the_phases_of_a_secure_sum(make, secure):
    text = words(shown(table.summary(runs.read(make("secure", rows=[secure]))), 160))
    assert "kB, sum: share 211.2 mean; up 80.3 (at most 160.7), down 130.8 (at most 261.7)" in text
    assert "kB, sum: mask 95.9 mean; up 12.6 (at most 25.1), down 83.3 (at most 166.7)" in text
    assert "secure sum" not in shown(table.summary(runs.read(make())))


def test_summary_without_guarantee(make):
    text = words(shown(table.summary(runs.read(make(private=False)))))
    for view in ("model", "server", "upload"):
        assert f"epsilon, {view} none no guarantee" in text
    assert "delta" not in text


def test_comparison_fits_eighty_columns_and_hides_nothing(make):
    several = [
        runs.read(make("flagship", rows=200, data="fashion-mnist")),
        runs.read(make("fl-std-again", rows=3, private=False, scheme="fl-std", data="fashion-mnist")),
    ]
    text = shown(table.comparison(several))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    lines = [line.split() for line in text.splitlines()]
    first, second = (at for at, line in enumerate(lines) if line[:1] in (["flagship"], ["fl-std-again"]))
    assert lines[first] == ["flagship", "0.700", "0.700", "payload", "110.0", "220.0", "model", "2.50"]
    assert lines[first + 1] == ["fl-top-dp", "at", "200", "at", "200", "protocol", "2.00", "2.00", "server", "2.67"]
    assert lines[first + 2] == ["fashion-mnist", "upload", "31.00"]
    assert lines[first + 3] == ["client,", "add/remove"]
    assert lines[second] == ["fl-std-again", "0.503", "0.503", "payload", "1.65", "3.30", "model", "none"]
    assert lines[second + 3] == ["no", "guarantee"]
    assert "delta 1e-5" in words(text)
    assert "client, add/remove: add or remove one client" in words(text)
    assert "do not compare" not in text


def test_a_comparison_says_which_epsilons_promise_different_things(make, line):
    several = [runs.read(make("clients")), runs.read(make("records", rows=[line(1, level="record")]))]
    text = words(shown(table.comparison(several)))
    assert "client, add/remove: add or remove one client record, add/remove: add or remove one record of" in text
    assert "promise different things: do not compare them" in text


def test_a_fixed_cohort_replaces_one_client(make):
    path = make()
    (path / "config.toml").write_text((path / "config.toml").read_text() + '[sampling]\nkind = "fixed"\n')
    assert "client, replace: replace one client by another" in words(shown(table.comparison([runs.read(path)])))


def test_names_with_markup_are_plain_text(make):
    run = runs.read(make("[red]x", scheme="[b]y"))
    assert "[red]x" in shown(table.comparison([run]))
    assert "[b]y on digits" in shown(table.summary(run))


def test_runs_of_the_same_name_are_told_apart(make):
    several = [runs.read(make("a/trial")), runs.read(make("b/trial")), runs.read(make("c"))]
    first, second, third = table.labels(several)
    assert first.endswith("a/trial")
    assert second.endswith("b/trial")
    assert third == "c"


def test_a_run_without_rounds_is_refused(make):
    with pytest.raises(Mistake, match="no finished round"):
        table.summary(runs.read(make(rows=0)))
