"""How an epsilon is printed: rounded up, so that no printed one is below the accounted one. Lower bounds: down."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_NOISE = 1e-9  # relative: what solvers add to be on the safe side, and no digit more


def shown(value: float | str, places: int = 2) -> str:
    """Rounded up to `places` decimals, or to two digits where that are more: 0.68, 3.00, 0.0018. Words stay."""
    if isinstance(value, str):
        return value
    if not 0 < value < math.inf:
        return f"{value:.{places}f}"
    digits = max(places, 1 - math.floor(math.log10(value * (1 - _NOISE))))
    raised = Decimal(value * (1 - _NOISE)).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING)
    text = f"{raised:f}" if value >= 1e-4 or places > 2 else f"{raised:.2g}"
    whole, _, decimals = text.partition(".")
    if "e" in text.lower() or not decimals:
        return text
    return f"{whole}.{decimals.rstrip('0').ljust(places, '0')}"


def brief(value: float | str) -> str:
    """As `shown`, without decimals from 100 on."""
    return shown(value) if isinstance(value, str) or value < 100 else f"{int(shown(value, 0)):,}"


def lowered(value: float, places: int = 2) -> str:
    """A lower bound, rounded down to `places` decimals: 0.68, 3.00; beyond a million no decimals count."""
    if value >= 1e6:
        return f"{value:.0e}"
    return f"{Decimal(value * (1 + _NOISE)).quantize(Decimal(1).scaleb(-places), ROUND_FLOOR):f}"
