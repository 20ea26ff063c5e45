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
