"""The least that Flower's apps can do: a vector travels down, and one of the same length up. No training."""

import json
import socket
import time

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """As many numbers as came."""
    (came,) = (record["numbers"].numpy() for record in message.content.array_records.values())
    return Message(RecordDict({"up": ArrayRecord({"numbers": Array(came + 1)})}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """A phase for each line that the bench sends: messages to all nodes, and their answers."""
    numbers = np.zeros(int(context.run_config["size"]), np.float32)
    with socket.create_connection(("127.0.0.1", int(context.run_config["port"]))) as line:
        for asked in line.makefile():
            nodes = list(grid.get_node_ids())
            if len(nodes) < json.loads(asked)["nodes"]:
                found = {"nodes": len(nodes)}
            else:
                began = time.perf_counter()
                content = RecordDict({"down": ArrayRecord({"numbers": Array(numbers)})})
                messages = [Message(content, dst_node_id=node, message_type=MessageType.TRAIN) for node in nodes]
                answers = list(grid.send_and_receive(messages))
                lengths = [
                    len(record["numbers"].numpy())
                    for answer in answers
                    for record in answer.content.array_records.values()
                ]
                right = lengths == [len(numbers)] * len(nodes)
                found = {"seconds": time.perf_counter() - began, "nodes": len(nodes), "right": right}
            line.sendall(json.dumps(found).encode() + b"\n")
