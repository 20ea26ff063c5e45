"""MLflow: a run of the experiment "hush" at a tracking server, or in a database in DIR."""

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.experiment.trackers.feed import Lost

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

EXPERIMENT = "hush"
ROUND = "round"  # a metric of each round, so that the last one can be asked for
# What MLflow does of itself: it reports its use to its makers, and asks a server that is away for minutes.
HABITS = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}


class Record:
    """A run of MLflow's."""

    def __init__(self, client: "MlflowClient", name: str, last: int) -> None:
        self.client, self.name, self.last = client, name, last

    def begin(self, chosen: dict[str, str]) -> None:
        """The settings as parameters."""
        from mlflow.entities import Param

        _asked(self.client.log_batch, self.name, params=[Param(key, value) for key, value in chosen.items()])

    def put(self, number: int, found: dict[str, float]) -> None:
        """The metrics of a step, in one request."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, number) for name, value in {**found, ROUND: float(number)}.items()]
        _asked(self.client.log_batch, self.name, metrics=metrics)

    def close(self) -> None:
        """MLflow shows the run as finished."""
        _asked(self.client.set_terminated, self.name)


def opened(place: str, run: str, known: str | None) -> Record:
    """The run that was begun, or a new one."""
    for name, value in HABITS.items():
        os.environ.setdefault(name, value)
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it says how it makes a database
    logging.getLogger("alembic").setLevel(logging.WARNING)
    client = _asked(MlflowClient, _address(place))
    if known is not None:
        last = _asked(client.get_run, known).data.metrics.get(ROUND, 0)
        _asked(client.update_run, known, "RUNNING")
        return Record(client, known, int(last))
    experiment = _asked(client.get_experiment_by_name, EXPERIMENT)
    identity = experiment.experiment_id if experiment else _asked(client.create_experiment, EXPERIMENT)
    return Record(client, _asked(client.create_run, identity, run_name=run).info.run_id, 0)


def _address(place: str) -> str:
    """A URI as it is; a folder gets a database, since MLflow no longer takes folders."""
    if "://" in place:
        return place
    folder = Path(place).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Lost(error.strerror) from None
    return f"sqlite:///{folder / 'mlflow.db'}"


def _asked(call: Any, *arguments: Any, **named: Any) -> Any:
    """What MLflow answers; whatever fails there in its database or on the way is `Lost`, with its first sentence."""
    from mlflow.exceptions import MlflowException

    try:
        return call(*arguments, **named)
    except (MlflowException, OSError) as error:
        raise Lost(str(error).splitlines()[0][:120]) from None
