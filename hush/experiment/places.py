"""Where a run computes, which changes nothing in it: threads of this process, or workers of a cluster."""

from hush.core.engine import Engine
from hush.experiment.settings import RunTable
from hush.federation.cluster import Cluster
from hush.federation.nodes import connect
from hush.federation.simulated import Simulated, Transport


def join(cluster: str, workers: int | None) -> int:
    """Join the cluster at this address, before anything is loaded: how many workers it is to have."""
    return connect(cluster, workers)


def transport(run: RunTable, engine: Engine, cluster: str | None) -> Transport:
    """Where the clients of a run are trained."""
    if cluster is None:
        return Simulated(run.block, workers=run.workers, engine=engine, exact=run.exact)
    return Cluster(cluster, run.block, workers=run.workers, engine=engine, exact=run.exact)
