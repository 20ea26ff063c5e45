"""What of a run may go to a tracker, which others can read: figures of the released models, and no participation."""

from pathlib import Path
from typing import Any

from hush.experiment.settings import PATHS, Config

# Of a row: what the released model does on the test rows, and what protects whoever is in it.
MODEL = (
    *("accuracy", "balanced", "auroc", "loss"),
    *("best_accuracy", "best_balanced", "best_auroc"),
)
SEED = "run.seed"  # a simulation's noise follows from it: with the models it would take the noise off


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a round that a tracker gets, by name.

    Cohort, bytes and seconds say how many took part, which a guarantee of the model view takes as secret. The other
    views' epsilons say how often the most drawn client did. The clip and whom the server refused stay there as well.
    """
    found = {f"test/{name}": row.get(name) for name in MODEL}
    spent = row["epsilon"]["model"]
    if isinstance(spent, str):  # no guarantee, so none that a count of clients could weaken
        found |= {"cohort": row["cohort"], "seconds": row["seconds"]}
        for way, kinds in row["bytes"].items():
            found |= {f"kB_{way}/{kind}": of["mean"] / 1000 for kind, of in kinds.items()}
    else:
        found["epsilon/model"] = spent
    return {name: float(value) for name, value in found.items() if value is not None}


def settings(config: Config) -> dict[str, str]:
    """The settings that a tracker gets: all but the seed, and of paths the last name."""
    tables = config.model_dump(exclude_none=True)
    found = {f"{table}.{key}": value for table, keys in tables.items() for key, value in keys.items()}
    return {key: Path(value).name if key in PATHS else str(value) for key, value in found.items() if key != SEED}
