"""Line charts as inline SVG that the page's style sheet colours: what a reader without scripts sees, and print.

page.js draws them anew, with zoom. Neither is plotly's: its script makes a page of 4.8 MB, and the page is rewritten
and read again every few seconds while a run goes on. This way it is some tens of kilobytes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TypeVar

WIDTH, HEIGHT = 400, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 72, 34, 44
LABEL_GAP = 17
MOST_POINTS, MOST_BANDS = 500, 80

Point = tuple[float, float]
T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    """One curve; `mark` rings one of its points."""

    name: str
    points: Sequence[Point]
    mark: Point | None = None


@dataclass(frozen=True)
class Axis:
    """The vertical axis: its range, its ticks, and where a value lands (0 at the foot, 1 at the top)."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def place(self, value: float) -> float:
        """The share of the height at which a value stands."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear(low: float, high: float) -> Axis:
    """An axis with round ticks that covers low to high."""
    if high - low < 1e-12 * max(1.0, abs(high)):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    step = _step((high - low) / 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(step * n for n in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def logarithmic(low: float, high: float) -> Axis:
    """An axis of decades with ticks at 1, 2, 5 (only 1 where there are many decades)."""
    steps = (1.0, 2.0, 5.0) if high / low < 2000 else (1.0,)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    grid = [digit * 10.0**power for power in decades for digit in steps]
    start = max(tick for tick in grid if tick <= low * (1 + 1e-9))
    stop = min(tick for tick in grid if tick > start and tick >= high * (1 - 1e-9))
    return Axis(start, stop, tuple(tick for tick in grid if start <= tick <= stop), log=True)


def chart(
    lines: Sequence[Line], axis: Axis, say: Callable[[float], str], label: str, unit: str, across_name: str = "round"
) -> str:
    """The SVG of some lines; `say` writes a value, `unit` names the vertical axis, `across_name` the other one."""
    across = max([x for line in lines for x, _ in line.points], default=1.0) or 1.0
    rounds = linear(0, across)
    ticks = [tick for tick in rounds.ticks if (tick == int(tick) or across_name != "round") and tick <= across]

    def px(x: float) -> float:
        return LEFT + x / across * (WIDTH - LEFT - RIGHT)

    def py(y: float) -> float:
        return HEIGHT - BOTTOM - axis.place(y) * (HEIGHT - TOP - BOTTOM)

    right, foot = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">']
    for tick in axis.ticks:
        y = py(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_tick(tick)}</text>')
    for tick in ticks:
        parts.append(f'<text class="tick" x="{px(tick):.1f}" y="{foot + 18}" text-anchor="middle">{_tick(tick)}</text>')
    middle = (LEFT + right) / 2
    parts.append(f'<text class="tick" x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{across_name}</text>')
    parts.append(f'<text class="tick" x="0" y="14">{escape(unit)}</text>')
    parts += [_curve(line, number, px, py) for number, line in enumerate(lines, 1)]
    parts += _names(lines, py)
    parts += _bands(lines, px, say, foot, across_name)
    return "".join([*parts, "</svg>"])


def _curve(line: Line, number: int, px: Callable[[float], float], py: Callable[[float], float]) -> str:
    if not line.points:
        return ""
    # A thinned line must still pass through the point that the ring is drawn around.
    kept = sorted({*thin(line.points, MOST_POINTS), *([line.mark] if line.mark else [])})
    path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in kept)
    x, y = line.points[-1]
    drawn = f'<polyline class="line" points="{path}"/><circle r="4" cx="{px(x):.1f}" cy="{py(y):.1f}"/>'
    if line.mark is not None:
        drawn += f'<circle class="ring" r="7" cx="{px(line.mark[0]):.1f}" cy="{py(line.mark[1]):.1f}"/>'
    return f'<g class="s{number}">{drawn}</g>'


def _names(lines: Sequence[Line], py: Callable[[float], float]) -> list[str]:
    """Each line's name beside its end, moved where lines end close together."""
    ends = sorted((py(line.points[-1][1]), number, line) for number, line in enumerate(lines, 1) if line.points)
    heights: list[float] = []
    for y, _, _ in ends:
        heights.append(max(y, heights[-1] + LABEL_GAP) if heights else y)
    spill = max(0.0, heights[-1] - (HEIGHT - BOTTOM)) if heights else 0.0
    return [
        f'<text class="name s{number}" x="{WIDTH - RIGHT + 12}" y="{height - spill + 4:.1f}">{escape(line.name)}</text>'
        for height, (_, number, line) in zip(heights, ends, strict=True)
    ]


def _bands(
    lines: Sequence[Line], px: Callable[[float], float], say: Callable[[float], str], foot: float, across_name: str
) -> list[str]:
    """An invisible strip per round that shows a rule and the round's values when pointed at."""
    at = [dict(line.points) for line in lines]
    stops = thin(sorted({x for values in at for x in values}), MOST_BANDS)
    edges = [px(stops[0]) - 8] if stops else []
    edges += [(px(a) + px(b)) / 2 for a, b in pairwise(stops)]
    edges += [px(stops[-1]) + 8] if stops else []
    bands = []
    for x, (left, end) in zip(stops, pairwise(edges), strict=True):
        values = [f"{line.name} {say(found[x])}" for line, found in zip(lines, at, strict=True) if x in found]
        words = escape("\n".join([f"{across_name} {_tick(x)}", *values]))
        bands.append(
            f'<g class="band"><title>{words}</title>'
            f'<rect x="{left:.1f}" y="{TOP}" width="{end - left:.1f}" height="{foot - TOP}"/>'
            f'<line x1="{px(x):.1f}" x2="{px(x):.1f}" y1="{TOP}" y2="{foot}"/></g>'
        )
    return bands


def thin(items: Sequence[T], most: int) -> list[T]:
    """At most about `most` of the items, evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(n * (len(items) - 1) / (most - 1))] for n in range(most)]


def _step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(digit * power for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= rough * (1 - 1e-9))


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}" if abs(value) > 1e-9 else "0"
