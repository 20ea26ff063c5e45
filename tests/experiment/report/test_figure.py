import xml.etree.ElementTree as tree

import pytest

from hush.errors import Mistake
from hush.experiment.report import figure, runs

SVG = "{http://www.w3.org/2000/svg}"


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
    assert "epsilon, model view, client level" in shown
    assert "add or remove one client, delta 1e-5; 1 run without a guarantee not shown" in shown
    assert "payload; protocol adds less than 5 %" in shown
    assert "flagship (fl-top-dp)" in shown
    assert "fl-std-again" in shown
    assert any("_$hidden$" in (text or "") for text in shown)


def lines(path, number):
    """How many thick lines of a run's colour each panel has; panels from left to right."""
    panels = [e for e in tree.parse(path).iter(f"{SVG}g") if e.get("id", "").startswith("axes_")]
    wanted = (figure.COLOURS[number], "width: 1.8")
    drawn = [[e.get("style", "") for e in panel.iter(f"{SVG}path")] for panel in panels]
    return [sum(all(word in style for word in wanted) for style in styles) for styles in drawn]


def test_levels_and_relations_never_share_an_axis_of_epsilon(make, line, tmp_path):
    rows = [line(n, level="record") for n in (1, 2, 3)]
    fixed = make("fixed")
    (fixed / "config.toml").write_text((fixed / "config.toml").read_text() + '[sampling]\nkind = "fixed"\n')
    several = [runs.read(make("clients")), runs.read(make("records", rows=rows)), runs.read(fixed)]
    out = figure.compare([*several, runs.read(make("more"))], tmp_path / "compare.svg")
    shown = texts(out)
    assert shown.count("epsilon, model view, client level") == 2
    assert shown.count("epsilon, model view, record level") == 1
    assert "replace one client by another, delta 1e-5" in shown
    assert [lines(out, number) for number in range(4)] == [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0]]


def test_another_view_is_drawn_where_it_is_asked_for(make, tmp_path):
    shown = texts(figure.compare([runs.read(make())], tmp_path / "compare.svg", "server"))
    assert "epsilon, server view, client level" in shown


def test_protocol_bytes_stand_apart_from_the_payload(make, line, tmp_path):
    much = {way: {kind: {"mean": 500.0, "max": 500} for kind in ("payload", "protocol")} for way in ("up", "down")}
    run = runs.read(make(rows=[line(1, bytes=much)]))
    shown = texts(figure.compare([run], tmp_path / "compare.svg"))
    assert "● payload, ○ with protocol" in shown


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


def test_a_run_that_sends_nothing_is_a_level_line(make, line, tmp_path):
    nothing = {way: {kind: {"mean": 0.0, "max": 0} for kind in ("payload", "protocol")} for way in ("up", "down")}
    rows = [line(1, bytes=nothing), line(2, bytes=nothing, accuracy=0.75)]
    alone = runs.read(make("standalone", rows=rows, private=False))
    other = runs.read(make("other", rows=3))
    assert (figure.level(alone), figure.level(other)) == (0.75, None)
    for several in ([alone], [alone, other]):
        drawn = tmp_path / f"{len(several)}.svg"
        assert "no round evaluated yet" not in texts(figure.compare(several, drawn))
        across = [e for e in tree.parse(drawn).iter("{http://www.w3.org/2000/svg}path") if _level(e.get("d", ""))]
        assert any(figure.COLOURS[0] in e.get("style", "") and "width: 1.8" in e.get("style", "") for e in across)


def _level(path: str) -> bool:
    """Whether a path is one level line of some length."""
    numbers = path.replace("M", " ").replace("L", " ").split()
    return len(numbers) == 4 and numbers[1] == numbers[3] and abs(float(numbers[2]) - float(numbers[0])) > 100
