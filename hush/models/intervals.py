"""How far a measure on few rows may be off: 95 % confidence intervals of a share and of an AUROC."""

import math

Z = 1.959964  # of the normal distribution, two sides, 95 %


def share(hits: int, rows: int) -> tuple[float, float]:
    """Wilson's score interval for `hits` of `rows` (1927); it stays within 0 and 1, at their ends too."""
    p, z2 = hits / rows, Z * Z
    middle, half = p + z2 / (2 * rows), Z * math.sqrt(p * (1 - p) / rows + z2 / (4 * rows * rows))
    return max(0.0, (middle - half) / (1 + z2 / rows)), min(1.0, (middle + half) / (1 + z2 / rows))


def auroc(value: float, ones: int, zeros: int) -> tuple[float, float]:
    """Newcombe's score interval for the area under the ROC curve (2006, method 5): |A - a| = z sd(a) solved for a.

    Its variance is Hanley and McNeil's (1982) at a, with the mean of both classes' sizes in place of either.
    """
    mean = (ones + zeros) / 2 - 1

    def sd(a: float) -> float:
        return math.sqrt(a * (1 - a) * (1 + mean * ((1 - a) / (2 - a) + a / (1 + a))) / (ones * zeros))

    def edge(end: float) -> float:
        inside, outside = value, end
        for _ in range(60):  # halves: the last bit
            middle = (inside + outside) / 2
            if abs(middle - value) <= Z * sd(middle):
                inside = middle
            else:
                outside = middle
        return inside

    return edge(0.0), edge(1.0)
