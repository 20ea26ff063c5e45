import xml.etree.ElementTree as tree
from itertools import pairwise

import pytest

from hush.experiment.report import svg


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (0.14, 0.815), (0.7, 0.7), (0, 22178), (0, 3), (0.8123, 0.8125), (1e-9, 3e-9), (-1, 0)],
)
def test_a_linear_axis_covers_its_values_with_round_ticks(low, high):
    axis = svg.linear(low, high)
    assert 0 <= axis.place(low) <= axis.place(high) <= 1 + 1e-9
    assert 3 <= len(axis.ticks) <= 8
    steps = {round((b - a) / (axis.ticks[1] - axis.ticks[0]), 6) for a, b in pairwise(axis.ticks)}
    assert steps == {1.0}


@pytest.mark.parametrize(("low", "high"), [(0.35, 95), (1, 1), (1, 10), (0.02, 1e6), (5, 5.1)])
def test_a_log_axis_covers_its_values(low, high):
    axis = svg.logarithmic(low, high)
    assert axis.place(low) >= -1e-9
    assert axis.place(low) <= axis.place(high) <= 1 + 1e-9
    assert (axis.ticks[0], axis.ticks[-1]) == (axis.low, axis.high)
    assert 2 <= len(axis.ticks) <= 12


def test_log_axis_places_decades_evenly():
    axis = svg.logarithmic(1, 100)
    assert axis.place(10) == pytest.approx(0.5)


def _chart(lines):
    drawn = svg.chart(lines, svg.linear(0, 10), lambda value: f"{value:.1f} kB", "a <label>", "kB")
    return tree.fromstring(drawn)


def _points(root, number):
    text = root.find(f"g[@class='s{number}']/polyline").get("points")
    return [tuple(map(float, pair.split(","))) for pair in text.split()]


def test_larger_is_higher_and_later_is_further_right():
    (x1, y1), (x2, y2), (x3, y3) = _points(_chart([svg.Line("up", [(1, 0), (2, 5), (3, 10)])]), 1)
    assert x1 < x2 < x3 == svg.WIDTH - svg.RIGHT
    assert y1 == svg.HEIGHT - svg.BOTTOM > y2 > y3 == svg.TOP
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.11)


def test_pointing_at_a_round_shows_its_values():
    root = _chart([svg.Line("up", [(1, 1), (2, 2)]), svg.Line("down", [(2, 4)])])
    titles = [title.text for title in root.iter("title")]
    assert titles == ["round 1\nup 1.0 kB", "round 2\nup 2.0 kB\ndown 4.0 kB"]
    assert root.get("aria-label") == "a <label>"


def test_names_of_lines_that_end_together_do_not_overlap():
    lines = [svg.Line(name, [(1, 0.0), (2, end)]) for name, end in (("a", 0.0), ("b", 0.1), ("c", 0.05))]
    root = _chart(lines)
    heights = {text.text: float(text.get("y")) for text in root.iter("text") if "name" in text.get("class")}
    assert heights["b"] < heights["c"] < heights["a"] <= svg.HEIGHT - svg.BOTTOM + 5
    assert heights["c"] - heights["b"] == pytest.approx(svg.LABEL_GAP, abs=0.2)


def test_a_long_line_is_thinned_and_keeps_its_end_and_its_mark():
    points = [(n, 5.0 + (n == 7777)) for n in range(1, 20001)]
    root = _chart([svg.Line("up", points, mark=(7777, 6.0))])
    drawn = _points(root, 1)
    assert len(drawn) <= svg.MOST_POINTS + 1
    assert drawn[-1][0] == svg.WIDTH - svg.RIGHT
    assert min(y for _, y in drawn) < drawn[0][1]
    assert len(list(root.iter("title"))) <= svg.MOST_BANDS


def test_one_point_is_a_dot():
    root = _chart([svg.Line("up", [(1, 5)])])
    circle = root.find("g[@class='s1']/circle")
    assert float(circle.get("cx")) == svg.WIDTH - svg.RIGHT
    ticks = [text.text for text in root.iter("text") if text.get("text-anchor") == "middle"]
    assert ticks == ["0", "1", "round"]
