"""Flower's SecAgg+: its own workflow at the server and its own mod at each client, in one process.

Messages pass as the bytes that its network would send. The server's time is that of the workflow, a client's that of
the mod; training, the strategy's average and the making of messages are left out of both, and messages are counted
apart, as "wire". A request may ask for a second size, `also`: then a few clients mask a vector of that size too, from
a copy of their state, where a whole round of it would take too long.
"""

import copy
import logging
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Parameters, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.constant import NODE_ID_NUM_BYTES, SUPERLINK_NODE_ID
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.compat.common import recorddict_compat as compat
from flwr.proto.message_pb2 import Message as Proto
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.serverapp import Grid
from flwr.supercore.corestate.utils import generate_rand_int_from_bytes
from flwr.supercore.task_identity import TaskIdentity
from secure_turns import Request, Times, client_times, error, serve, timed, turn, vector, versions

WEIGHT = 1000  # max_weight's default: each client's weight is 1
MASK = Stage.COLLECT_MASKED_VECTORS
FEW = 3


def context(node: int) -> Context:
    """What a node keeps between messages."""
    return Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={}, series_id=0)


def answered(sent: bytes, state: Context, client: int, size: int) -> tuple[bytes, float, float]:
    """A client's answer, the mod's CPU seconds, and those of reading and writing the messages."""
    got, reading = timed(lambda: message_from_proto(Proto.FromString(sent)))
    trained = RecordDict()
    if got.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE] == MASK:
        parameters = ndarrays_to_parameters([vector(client, size)])
        trained = compat.fitres_to_recorddict(FitRes(Status(Code.OK, ""), parameters, WEIGHT, {}), False)
    reply, seconds = timed(secaggplus_mod, got, state, lambda asked, _: Message(trained, reply_to=asked))
    packed, writing = timed(lambda: message_to_proto(reply).SerializeToString())
    return packed, seconds, reading + writing


class Clients(Grid):
    """All clients: takes the server's messages, gives their answers, and counts."""

    def __init__(self, request: Request) -> None:
        self.size, self.lost = request["size"], request["lost"]
        self.nodes = {generate_rand_int_from_bytes(NODE_ID_NUM_BYTES): i for i in range(request["clients"])}
        self.contexts = {node: context(node) for node in self.nodes}
        self.times: Times = {stage: [] for stage in Stage.all()}
        self.wire: Times = {stage: [] for stage in Stage.all()}
        self.bytes = {way: {stage: np.zeros(len(self.nodes)) for stage in Stage.all()} for way in ("up", "down")}
        self.spent = 0.0
        self.also = request.get("also")
        self.others = [client for client in range(self.lost, self.lost + FEW) if self.also]
        self.masked: list[tuple[float, int]] = []  # of these few: CPU seconds and bytes

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """One client after the other; who is lost has shared its secrets, and answers no more."""
        start = time.process_time()
        found = [reply for message in messages if (reply := self._ask(message)) is not None]
        self.spent += time.process_time() - start
        return found

    def _ask(self, message: Message) -> Message | None:
        stage = message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
        node = message.metadata.dst_node_id
        client = self.nodes[node]
        sent = message_to_proto(message).SerializeToString()
        self.bytes["down"][stage][client] += len(sent)
        if stage in Stage.all()[2:] and client < self.lost:
            return None
        if stage == MASK and client in self.others:
            packed, seconds, _ = answered(sent, copy.deepcopy(self.contexts[node]), client, self.also)
            self.masked.append((seconds, len(packed)))
            turn()
        packed, seconds, wire = answered(sent, self.contexts[node], client, self.size)
        self.bytes["up"][stage][client] += len(packed)
        self.times[stage].append(seconds)
        self.wire[stage].append(wire)
        turn()
        return message_from_proto(Proto.FromString(packed))

    def get_node_ids(self) -> list[int]:
        """All of them."""
        return list(self.nodes)

    def set_run(self, run: Any) -> None:
        """There is one run only."""

    run = create_message = push_messages = pull_messages = None  # the workflow asks for none of them


class Everyone(FedAvg):
    """Asks all clients, and keeps the average as the workflow hands it over."""

    def __init__(self, grid: Clients) -> None:
        super().__init__()
        self.grid, self.average = grid, np.empty(0)

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> Any:
        """Without a model: what travels down is the protocol's alone."""
        return [(GridClientProxy(node, self.grid, 1), FitIns(parameters, {})) for node in self.grid.nodes]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """All results hold the same average."""
        (self.average,) = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}


def answer(request: Request) -> dict[str, Any]:
    """One round of the workflow, with its default quantisation; num_shares counts the client itself."""
    grid = Clients(request)
    kept = Everyone(grid)
    server = LegacyContext(context(1), strategy=kept)
    server.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})
    empty = compat.parameters_to_arrayrecord(ndarrays_to_parameters([]), True)
    server.state.array_records[MAIN_PARAMS_RECORD] = empty
    workflow = SecAggPlusWorkflow(request["degree"] + 1, request["shares"])
    _, seconds = timed(workflow, grid, server)
    alive = range(request["lost"], request["clients"])
    true = sum(vector(client, grid.size).astype(np.float64) for client in alive) / len(alive)
    step = 2 * workflow.clipping_range / workflow.quantization_range
    if kept.average.shape != true.shape or np.abs(kept.average - true).max() > 2 * step:
        raise SystemExit("Flower's average is not that of the inputs, to its quantisation")
    found = {
        "client": client_times(grid.times),
        "wire": client_times(grid.wire)["all"]["median"],
        "server": seconds - grid.spent,
        "bytes": {way: moved(stages) for way, stages in grid.bytes.items()},
        "error": error(kept.average, true),
        "versions": versions("flwr", "numpy", "cryptography", "pycryptodome"),
    }
    if grid.also:
        grid.times[MASK], lengths = map(list, zip(*grid.masked, strict=True))
        few = {way: {stage: all_[grid.others] for stage, all_ in stages.items()} for way, stages in grid.bytes.items()}
        few["up"][MASK] = np.array(lengths)
        bytes_ = {way: moved(stages) for way, stages in few.items()}
        found["also"] = {"client": client_times(grid.times), "measured": FEW, "bytes": bytes_}
    return found


def moved(stages: dict[str, Any]) -> dict[str, float]:
    """Bytes of one client in the whole round, the mean over the clients and the most; the most in each stage."""
    whole = sum(stages.values())
    each = {stage: float(counts.max()) for stage, counts in stages.items()}
    return {"mean": float(whole.mean()), "max": float(whole.max())} | each


if __name__ == "__main__":
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID
    serve(answer)
