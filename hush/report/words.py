"""How numbers read, everywhere the same: on the page, in the tables, in the figure."""

from hush.report.runs import finite

_SEES = {
    "client": {
        "model": "sees every released model, not who took part",
        "server": "knows who took part and sees the sum",
        "upload": "sees single uploads",
    },
    "record": {
        "model": "sees every released model, which may show what clients took part",
        "server": "knows what clients took part and sees what they send",
        "upload": "sees single uploads, each with all of its client's noise",
    },
}
PROTECTED = {"client": "any one client", "record": "any one record of a client"}


def sees(view: str, level: str) -> str:
    """What an adversary sees, where clients or records are protected."""
    return _SEES[level][view]


def measure(name: str) -> str:
    """What a measure is called."""
    return {"accuracy": "accuracy", "balanced": "balanced accuracy", "auroc": "AUROC"}[name]


def accuracy(value: float | None) -> str:
    """Three decimals, or a dash where nothing was evaluated."""
    return f"{value:.3f}" if value is not None and finite(value) else "–"


def kB(value: float) -> str:
    """Kilobytes of 1,000 bytes: 0.34, 110.9, 22,178."""
    if value and abs(value) < 10:
        return f"{value:.2f}"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def epsilon(value: float | None) -> str:
    """Two decimals, more for a small one; "none" where there is no guarantee."""
    if value is None:
        return "none"
    if value == 0:
        return "0"
    if value < 0.1:
        return f"{value:.2g}"
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def delta(value: float | None) -> str:
    """A delta as it is written in the papers: 1e-5."""
    if value is None:
        return "not stated"
    mantissa, _, power = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa
