"""Made-up run directories in the form that `hush run` leaves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CONFIG = """
[data]
name = "{data}"
clients = 6000
[model]
name = "cnn"
[scheme]
name = "{scheme}"
ratio = 0.005
delta = 1e-5
[run]
rounds = {total}
seed = 0
secure = false
"""


def row(number: int, private: bool = True, **other: Any) -> dict[str, Any]:
    """Round `number`: accuracy 0.5 + number/1000, 550 bytes of payload a round up, twice that down."""

    def way(size: float) -> dict[str, Any]:
        return {
            "payload": {"mean": size * number, "max": 4 * size * number},
            "protocol": {"mean": 10.0 * number, "max": 40 * number},
        }

    epsilon: dict[str, Any] = {
        "model": 0.5 + 0.01 * number,
        "server": 2.67,
        "server_median": 0.0,
        "upload": 31.0,
        "upload_median": 0.0,
    }
    accuracy = 0.5 + number / 1000
    made = {
        "round": number,
        "cohort": 98,
        "aborted": False,
        "accuracy": accuracy,
        "loss": 0.8,
        "best_accuracy": accuracy,
        "best_round": number,
        "clip": 0.61,
        "bytes": {"up": way(550.0), "down": way(1100.0)},
        "epsilon": epsilon if private else dict.fromkeys(epsilon, "none"),
        "seconds": 3.2,
    }
    return made | other


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Write a run directory; rows may be given, or their number."""

    def write(
        name: str = "trial",
        rows: int | list[dict[str, Any]] = 3,
        total: int = 3,
        scheme: str = "fl-top-dp",
        data: str = "digits",
        private: bool = True,
    ) -> Path:
        made = [row(n + 1, private) for n in range(rows)] if isinstance(rows, int) else rows
        path = tmp_path / name
        path.mkdir(parents=True)
        (path / "config.toml").write_text(CONFIG.format(data=data, scheme=scheme, total=total))
        (path / "rounds.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made))
        return path

    return write


@pytest.fixture
def line() -> Callable[..., dict[str, Any]]:
    return row


@pytest.fixture
def secure() -> dict[str, Any]:
    """The last round of a run with secure sums: what it took by phase, in kB 1.45, 80.33 and so on."""
    phases = {
        "advertise": {"up": {"mean": 1450.0, "max": 2900}, "down": {"mean": 0.0, "max": 0}},
        "share": {"up": {"mean": 80_330.0, "max": 160_660}, "down": {"mean": 130_850.0, "max": 261_700}},
        "mask": {"up": {"mean": 12_555.5, "max": 25_111}, "down": {"mean": 83_330.0, "max": 166_660}},
    }
    made = row(3)
    return made | {"bytes": made["bytes"] | {"phases": phases}}


CARD = {
    "scheme": "fl-top-dp",
    "guarantee": "differential privacy, client level",
    "rounds": 3,
    "population": 6000,
    "cohort": 100,
    "sampling": "poisson",
    "participation": {"worst": 3, "median": 0.0},
    "unnoised": ["test metrics <i>as they are</i>"],
    "level": "client",
    "protected": "one client",
    "relation": "add or remove one client",
    "neighbours": "add or remove one client",
    "delta": 1e-5,
    "accountant": "pld",
    "adversaries": [{"name": "model", "sees": "the <u>models</u>", "epsilon": 2.5}],
    "paper": None,
    "noise_source": "simulation seed: not a deployment",
    "assumptions": ["honest & curious"],
    "warnings": ["6 clients are <b>few</b>"],
}
ABOUT = {
    "hush": "0.1.0<b>",
    "data": {
        "source": "a <b>file</b>",
        "digest": "none known",
        "classes": 2,
        "shape": [22],
        "rows": {"training": 168, "test": 42, "public": 0},
        "rules": [
            {"name": "<b>age</b>", "before": 401, "dropped": 9, "why": "<b>young</b>", "of": "rows", "changed": 0},
            {"name": "nothing", "before": 392, "dropped": 0, "why": "none", "of": "rows", "changed": 0},
        ],
    },
    "coordinates": {
        "fixed": True,
        "layers": [
            {"name": "<b>1</b>", "shape": [10, 4], "weights": 40, "live": 10},
            {"name": "2", "shape": [10], "weights": 10, "live": 0},
        ],
    },
    "results": {
        "round": 3,
        "clients": [
            {"name": "<b>E</b>", "rows": 9, "ones": 3, "measure": "auroc", "value": 0.75, "low": 0.5, "high": 0.9},
            {"name": "West", "rows": 4, "ones": 0, "measure": "auroc", "value": None},
        ],
        "classes": [{"name": "0", "rows": 8, "measure": "accuracy", "value": 1.0, "low": 0.68, "high": 1.0}],
    },
}


@pytest.fixture
def described() -> Callable[..., Path]:
    """Puts a card and what else is known into a run's directory; fields of the card may be given."""

    def put(path: Path, **changed: Any) -> Path:
        (path / "privacy.json").write_text(json.dumps({"events": [], "card": CARD | changed}))
        (path / "about.json").write_text(json.dumps(ABOUT))
        return path

    return put
