"""A character language model, trained privately among 1,000 clients: python examples/language/train.py [ROUNDS]."""

import math
import string
import sys
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn

import hush

SIGNS = string.printable  # the alphabet, which is public: signs of the clients' texts would be theirs
LENGTH, ROWS = 40, 10


class Characters(nn.Module):
    """The next character from those before it: an embedding, an LSTM, a linear layer."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(SIGNS), width)
        self.read = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(width, len(SIGNS))

    def forward(self, x: Tensor) -> Tensor:
        """Logits: rows, signs, places, as cross_entropy takes them."""
        return self.out(self.read(self.embed(x))[0]).transpose(1, 2)


def main(rounds: int) -> float:
    """Perplexity on texts of nobody who trains, after so many rounds."""
    text = "".join(sign for topic in sorted(topics) for sign in topics[topic] if sign in SIGNS)  # Python's own manual
    codes = torch.tensor([SIGNS.index(sign) for sign in text])
    rows = codes[: len(codes) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
    test, train = rows[:500], rows[500:]
    clients = [range(first, first + ROWS) for first in range(0, len(train) - ROWS + 1, ROWS)]
    torch.manual_seed(0)
    task = hush.Task(
        Characters(),
        nn.functional.cross_entropy,
        (train[:, :-1], train[:, 1:]),
        clients,
        test=(test[:, :-1], test[:, 1:]),
    )
    scheme = hush.scheme(
        "fl-std-dp",
        rate=2.0,
        steps=5,
        batch=ROWS,
        clip=1.0,
        noise=0.8,
        momentum=0.9,
        sampling=hush.Poisson(60 / len(clients)),
    )
    for report in hush.rounds(scheme, task, rounds=rounds, delta=1e-4):
        perplexity = math.exp(hush.evaluate(task, report.state.weights).loss)
        spent = report.epsilon["model"]
        print(f"round {report.round}: perplexity {perplexity:.1f}, epsilon {spent:.2f} at delta 1e-4")
    return perplexity


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
