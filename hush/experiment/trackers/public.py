"""What of a run may go to a tracker, which others can read: figures of the released models, and no participation."""

from pathlib import Path
from typing import Any

from hush.experiment.settings import PATHS, Config

SEED = "run.seed"  # a simulation's noise follows from it: with the models it would take the noise off


def measured(row: dict[str, Any]) -> list[str]:
    """The fields with what the released model does on the test rows: the task's metrics, each with its best."""
    names = [key.removeprefix("best_") for key in row if key.startswith("best_") and key != "best_round"]
    return [name for name in dict.fromkeys((*names, "loss", *(f"best_{one}" for one in names))) if name in row]


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a round that a tracker gets, by name.

    Cohort, bytes and seconds say how many took part, which a guarantee of the model view takes as secret. The other
    views' epsilons say how often the most drawn client did. The clip and whom the server refused stay there as well.
    """
    found = {f"test/{name}": row[name] for name in measured(row)}
    spent = row["epsilon"]["model"]
    if isinstance(spent, str):  # no guarantee, so none that a count of clients could weaken
        found |= {"cohort": row["cohort"], "seconds": row["seconds"]}
        for way in ("up", "down"):
            found |= {f"kB_{way}/{kind}": of["mean"] / 1000 for kind, of in row["bytes"][way].items()}
    else:
        found["epsilon/model"] = spent
    return {name: float(value) for name, value in found.items() if value is not None}


def settings(config: Config) -> dict[str, str]:
    """The settings that a tracker gets: all but the seed, and of paths the last name."""
    tables = config.model_dump(exclude_none=True)
    found = {f"{table}.{key}": value for table, keys in tables.items() for key, value in keys.items()}
    return {key: Path(value).name if key in PATHS else str(value) for key, value in found.items() if key != SEED}
