"""Adapters on a frozen transformer: only they train, travel and are protected: python examples/lora/train.py [ROUNDS].

A small transformer stands in for a large one from a hub: any nn.Module whose adapters have a name of their own will do.
"""

import math
import string
import sys
from dataclasses import replace
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hush

SIGNS, LENGTH, ROWS, WIDTH = string.printable, 32, 8, 32


class LoraLinear(nn.Module):
    """W x + B A x with B zero at first (Hu et al. 2021): the pretrained layer, and a change of low rank beside it."""

    def __init__(self, layer: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """What the layer gives, and what the adapter adds."""
        return self.layer(x) + x @ self.lora_a.T @ self.lora_b.T


def adapted(model: nn.Module) -> nn.Module:
    """The model with an adapter beside each linear layer of its blocks."""
    model.requires_grad_(False)
    for place, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and place.startswith("blocks"):
            model.set_submodule(place, LoraLinear(module))
    return model


class Block(nn.Module):
    """Attention to what came before, then two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.wide, self.back = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        q, k, v = self.mix(self.first(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return x + self.back(F.gelu(self.wide(self.second(x))))


class Transformer(nn.Module):
    """The next character; its decoder has the weights of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(len(SIGNS), WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH) / 10)
        self.blocks, self.out = nn.Sequential(Block(), Block()), nn.Linear(WIDTH, len(SIGNS), bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        """Logits: rows, signs, places, as cross_entropy takes them."""
        return self.out(self.blocks(self.embed(x) + self.place)).transpose(1, 2)


def pretrained(rows: Tensor, steps: int = 200) -> nn.Module:
    """A transformer that has read public text, here."""
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(steps):
        batch = rows[torch.arange(step * 32, step * 32 + 32) % len(rows)]
        optimizer.zero_grad()
        F.cross_entropy(model(batch[:, :-1]), batch[:, 1:]).backward()
        optimizer.step()
    return model


def coded(text: str) -> Tensor:
    """Rows of characters, each one longer than what the model reads."""
    codes = torch.tensor([SIGNS.index(sign) for sign in text])
    return codes[: len(codes) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)


def main(rounds: int) -> tuple[float, float]:
    """Perplexity on text of the clients' kind, before and after so many rounds."""
    text = "".join(sign for topic in sorted(topics) for sign in topics[topic] if sign in SIGNS)  # Python's own manual
    public, private = coded(text[:60000]), coded(text[60000:].upper())  # the clients write in capitals
    test, train = private[:500], private[500:]
    clients = [range(first, first + ROWS) for first in range(0, len(train) - ROWS + 1, ROWS)]
    task = hush.Task(
        adapted(pretrained(public)),
        F.cross_entropy,
        (train[:, :-1], train[:, 1:]),
        clients,
        (test[:, :-1], test[:, 1:]),
    )
    scheme = hush.scheme(
        "fl-std-dp", rate=0.2, steps=3, batch=ROWS, clip=1.0, noise=0.8, sampling=hush.Poisson(60 / len(clients))
    )
    scheme = replace(scheme, coordinates=hush.Only("*lora*"))
    before = math.exp(hush.evaluate(task, hush.State.first(task).weights).loss)
    print(f"{scheme.coordinates.count(task.layout):,} weights of adapters travel; perplexity {before:.1f}")
    for report in hush.rounds(scheme, task, rounds=rounds, delta=1e-4):
        after = math.exp(hush.evaluate(task, report.state.weights).loss)
        spent, sent = report.epsilon["model"], report.bytes["up"]["payload"]["max"]
        print(f"round {report.round}: perplexity {after:.1f}, epsilon {spent:.2f}, {sent:,.0f} bytes up at most")
    return before, after


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
