"""Flower: its simulation on Ray, FedAvg, one core per client, no evaluation.

Each request starts a simulation of its own, so that no Ray runs while another contender is measured. Before its
first round a few messages wake the actors, so that the start of Ray and of the actors is left out.
"""

import os
import time

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}

import flower_app
import numpy as np
import talk
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, Strategy
from flwr.simulation import run_simulation
from nets import build
from workload import CLIP, COHORT, NOISE


def strategy(nodes: int, private: bool) -> Strategy:
    """FedAvg with 100 of the nodes; `private` in Flower's own wrapper, which clips and adds noise at the server."""
    plain = FedAvg(
        fraction_train=COHORT / nodes, fraction_evaluate=0.0, min_train_nodes=COHORT, min_available_nodes=nodes
    )
    return DifferentialPrivacyServerSideFixedClipping(plain, NOISE, CLIP, COHORT) if private else plain


def wake(grid: Grid, arrays: ArrayRecord, nodes: int) -> None:
    """Wait until all nodes are registered, and let the actors train a few clients."""
    while len(found := list(grid.get_node_ids())) < nodes:
        time.sleep(0.1)
    content = RecordDict({"arrays": arrays, "config": ConfigRecord()})
    for _ in range(2):
        grid.send_and_receive([Message(content=content, message_type="train", dst_node_id=k) for k in found[:8]])


def start(workload: str, nodes: int, private: bool) -> talk.Measure:
    """Measures from the call that configures a round to the call that configures the next."""

    def measure(rounds: int) -> talk.Answer:
        moments: list[float] = []
        spent: list[tuple[float, float]] = []
        counts: list[int] = []
        found: talk.Answer = {}
        app = ServerApp()

        @app.main()
        def main(grid: Grid, context: Context) -> None:
            arrays = ArrayRecord(build(workload).state_dict())
            wake(grid, arrays, nodes)
            part = strategy(nodes, private)
            configure, aggregate = part.configure_train, part.aggregate_train

            def mark() -> None:
                spent.append(talk.mark())
                moments.append(time.perf_counter())

            def configured(*args, **kwargs):
                mark()
                return configure(*args, **kwargs)

            def aggregated(number, replies):
                replies = list(replies)
                counts.append(sum(not reply.has_error() for reply in replies))
                return aggregate(number, replies)

            part.configure_train, part.aggregate_train = configured, aggregated
            part.start(grid=grid, initial_arrays=arrays, num_rounds=rounds)
            mark()
            if counts != [COHORT] * rounds:
                raise RuntimeError(f"clients that answered, by round: {counts}, not {COHORT}")
            found.update(talk.answer(np.diff(moments).tolist(), spent[0], spent[-1]))

        resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": talk.CORES}}
        run_simulation(app, flower_app.app, num_supernodes=nodes, backend_config=resources)
        return found

    return measure


if __name__ == "__main__":
    options = talk.OPTIONS
    measure = start(options["workload"], options["nodes"], options.get("private", False))
    talk.serve(measure, ["flwr", "ray", "torch"], warm=0)
