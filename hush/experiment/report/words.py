"""How numbers read, everywhere the same: on the page, in the tables, in the figure."""

from hush.experiment.report.runs import finite
from hush.privacy.shown import brief

_SEES = {
    "client": {
        "model": "sees every released model, not who took part",
        "server": "knows who took part and sees the sum",
        "colluding": "the server with colluding clients",
        "upload": "sees single uploads",
    },
    "record": {
        "model": "sees every released model, which may show what clients took part",
        "server": "knows what clients took part and sees what they send",
        "upload": "sees single uploads, each with all of its client's noise",
    },
}
_PHASES = {
    "advertise": "a fresh public key",
    "share": "keys of the neighbours; what is public of two shared secrets",
    "mask": "which neighbours shared; the masked numbers",
    "consent": "who sent numbers, and a signature on it",
    "unmask": "signatures of the committee; a share of each neighbour's secret",
    "numbers": "the masked numbers, to the one server",
    "seeds": "the mask's seed, to the other server",
}
_MEASURES = {
    "balanced": "balanced accuracy",
    "auroc": "AUROC",
    "top5": "top-5 accuracy",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "macro_auroc": "macro AUROC",
    "macro_f1": "macro F1",
    "token_accuracy": "token accuracy",
}
PROTECTED = {"client": "any one client", "record": "any one record of a client"}


def sees(view: str, level: str, secure: bool = False, turns: bool = False) -> str:
    """What an adversary sees, where clients or records are protected; in a secure sum nobody is to see an upload.

    `turns`: who takes part when is public.
    """
    found = _SEES[level][view]
    if turns:
        found = found.replace("not who took part", "and knows whose turn it was")
    return found.replace("sees single uploads", "took the masks off single uploads") if secure else found


def guarantee(level: str | None, relation: str | None) -> str:
    """Whom a run protects, and by which relation, in short: client, add/remove."""
    if level is None or relation is None:
        return "no guarantee"
    return f"{level}, {'replace' if relation.startswith('replace') else 'add/remove'}"


def phase(name: str) -> str:
    """What travels in a phase of a secure sum."""
    return _PHASES.get(name, "")


def measure(name: str) -> str:
    """What a measure is called; one of the user's own as it calls itself."""
    return _MEASURES.get(name, name)


def title(name: str) -> str:
    """A measure at the head of something."""
    found = measure(name)
    return found[0].upper() + found[1:]


def better(name: str, larger: bool) -> str:
    """A measure, with a word where less of it is better."""
    return measure(name) if larger else f"{measure(name)} (smaller is better)"


def accuracy(value: float | None) -> str:
    """A measure's value: three decimals, four digits of a large or a tiny one, a dash where nothing was evaluated."""
    if value is None or not finite(value):
        return "–"
    if value and not 5e-4 <= abs(value) < 1000:
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    return f"{value:.3f}"


def kB(value: float) -> str:
    """Kilobytes of 1,000 bytes: 0.34, 110.9, 22,178."""
    if value and abs(value) < 10:
        return f"{value:.2f}"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def length(value: float) -> str:
    """Three digits of a norm: 0.0123, 4.95, 64."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def epsilon(value: float | None) -> str:
    """Two decimals, more for a small one, rounded up; "none" where there is no guarantee."""
    if value is None:
        return "none"
    if value == 0:
        return "0"
    return brief(value)


def delta(value: float | None) -> str:
    """A delta as it is written in the papers: 1e-5."""
    if value is None:
        return "not stated"
    mantissa, _, power = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa
