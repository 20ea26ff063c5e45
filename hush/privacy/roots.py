"""The root of a function by Brent's method: scipy.optimize.brentq step for step, whose import alone takes 0.3 s."""

import math
from collections.abc import Callable


def brent(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where the function, of different signs at the ends, is zero, to `tolerance` (absolute plus relative).

    Brent 1973, chapter 4: a secant or an inverse quadratic step where it falls fast enough, and else a bisection.
    """
    before, here, other = low, high, 0.0
    f_before, f_here, f_other = function(low), function(high), 0.0
    if f_before == 0:
        return low
    if f_here != 0 and math.copysign(1, f_before) == math.copysign(1, f_here):
        raise ValueError(f"the function has one sign at {low:g} and {high:g}")
    last = step = 0.0
    for _ in range(100):
        if f_before != 0 and f_here != 0 and math.copysign(1, f_before) != math.copysign(1, f_here):
            other, f_other = before, f_before
            last = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        least = (tolerance + tolerance * abs(here)) / 2
        half = (other - here) / 2
        if f_here == 0 or abs(half) < least:
            return here
        tried = math.inf
        if abs(last) > least and abs(f_here) < abs(f_before):
            if before == other:
                tried = -f_here * (here - before) / (f_here - f_before)
            else:
                near, far = (f_before - f_here) / (before - here), (f_other - f_here) / (other - here)
                tried = -f_here * (f_other * far - f_before * near) / (far * near * (f_other - f_before))
        last, step = (step, tried) if 2 * abs(tried) < min(abs(last), 3 * abs(half) - least) else (half, half)
        before, f_before = here, f_here
        here += step if abs(step) > least else math.copysign(least, half)
        f_here = function(here)
    raise ArithmeticError("a root was not found in 100 steps")
