import xml.etree.ElementTree as tree

import pytest

from hush.errors import Mistake
from hush.report import figure, runs


def texts(path):
    return [element.text for element in tree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_two_panels_and_a_name_per_run(make, tmp_path):
    several = [
        runs.read(make("flagship", rows=50)),
        runs.read(make("fl-std-again", rows=3, private=False, scheme="fl-std")),
        runs.read(make("_$hidden$", rows=1)),
    ]
    out = figure.compare(several, tmp_path / "new" / "compare.svg")
    shown = texts(out)
    assert "kB up per client, mean (log scale)" in shown
    assert "epsilon, model view" in shown
    assert "1 run without a guarantee not shown" in shown
    assert "flagship (fl-top-dp)" in shown
    assert "fl-std-again" in shown
    assert any("_$hidden$" in (text or "") for text in shown)


def test_without_private_runs_there_is_one_panel(make, tmp_path):
    out = figure.compare([runs.read(make(private=False))], tmp_path / "compare.svg")
    assert not any("epsilon" in (text or "") for text in texts(out))


def test_png(make, tmp_path):
    out = figure.compare([runs.read(make())], tmp_path / "compare.PNG")
    assert out.read_bytes().startswith(b"\x89PNG")


def test_curves_are_accuracy_against_cost(make, line):
    rows = [line(1), line(2, accuracy=None), line(3)]
    run = runs.read(make(rows=rows))
    assert figure.curve(run, lambda row: runs.kilobytes(row, "up")) == [(0.56, 0.501), (1.68, 0.503)]
    assert figure.curve(run, lambda row: 0.0) == []
    assert figure.curve(run, lambda row: None) == []


def test_no_evaluated_round_is_said(make, line, tmp_path):
    run = runs.read(make(rows=[line(1, accuracy=None)]))
    assert "no round evaluated yet" in texts(figure.compare([run], tmp_path / "compare.svg"))


def test_an_out_that_cannot_be_drawn_is_refused(make, tmp_path):
    run = runs.read(make())
    with pytest.raises(Mistake, match=r"compare\.gif' must end in"):
        figure.compare([run], tmp_path / "compare.gif")
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(Mistake, match="cannot be written"):
        figure.compare([run], tmp_path / "taken.png")
