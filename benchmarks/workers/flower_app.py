"""Flower's client: trains the round's weights on its own rows. Data and network stay in the actor between messages."""

import functools

import talk
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from nets import build
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from workload import RATE, ROWS, STEPS

app = ClientApp()


@functools.cache
def prepared(workload: str) -> tuple[nn.Module, Tensor, Tensor]:
    """The network and all rows, once per actor."""
    torch.set_num_threads(1)  # an actor has one core
    x, y = (torch.from_numpy(values) for values in talk.data(workload))
    return build(workload), x, y


@app.train()
def train(message: Message, context: Context) -> Message:
    """Five full-batch steps from the server's weights."""
    model, x, y = prepared(talk.OPTIONS["workload"])
    client = int(context.node_config["partition-id"])
    rows = slice(client * ROWS, (client + 1) * ROWS)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": ROWS})}
    return Message(content=RecordDict(content), reply_to=message)
