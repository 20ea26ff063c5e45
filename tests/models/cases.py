"""The models that people bring: small, with rows and a loss."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.core.task import Task
from hush.data.samples import samples
from hush.parts.coordinates import Only

TOKENS, WIDTH, STEPS, CLIENTS, ROWS = 9, 8, 6, 5, 4


class Reader(nn.Module):
    """Tokens in, the next token out: an embedding, a body, and a decoder that may be the embedding's own weights."""

    def __init__(self, body: nn.Module, tied: bool = False) -> None:
        super().__init__()
        self.embed, self.body, self.out = nn.Embedding(TOKENS, WIDTH), body, nn.Linear(WIDTH, TOKENS, bias=not tied)
        if tied:
            self.out.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        found = self.body(self.embed(x))
        return self.out(found[0] if isinstance(found, tuple) else found).transpose(1, 2)


class Attention(nn.Module):
    """Scaled dot-product attention, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.mix(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        return x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Bag(nn.Module):
    """The mean of the tokens that are no padding (0), and a class."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(TOKENS, WIDTH, padding_idx=0), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        there = (x != 0).unsqueeze(2)
        return self.out((self.embed(x) * there).sum(1) / there.sum(1).clamp(min=1))


@dataclass
class Said:
    """An output of one's own."""

    logits: Tensor
    size: Tensor


class Speaks(nn.Module):
    """A model that returns a dict or an object."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.kind, self.hidden, self.out = kind, nn.Linear(WIDTH, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> object:
        hidden = torch.tanh(self.hidden(x))
        return self.kind(logits=self.out(hidden), size=hidden.square().mean())


def heard(output: dict | Said, target: Tensor) -> Tensor:
    logits, size = (output["logits"], output["size"]) if isinstance(output, dict) else (output.logits, output.size)
    return F.cross_entropy(logits, target) + 0.1 * size


class Adapted(nn.Module):
    """A linear layer with a low-rank adapter beside it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer, self.lora_a, self.lora_b = nn.Linear(width, width), nn.Linear(width, 2), nn.Linear(2, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x) + self.lora_b(self.lora_a(x)))


class Frozen(nn.Module):
    """A body that does not train, under a head that does; `x` goes where it likes in a forward of one's own."""

    def __init__(self, body: nn.Module | None = None, skip: bool = False) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, 3)
        self.body = body or nn.Sequential(nn.Linear(WIDTH, 30), nn.Tanh(), nn.Linear(30, WIDTH))
        self.body.requires_grad_(False)
        self.skip = skip

    def forward(self, x: Tensor, scale: float | None = None) -> Tensor:
        found = torch.relu(self.body(x) + 0.1)
        if scale is not None:
            found = found * scale
        return self.head(found) + x[:, :3] if self.skip else self.head(found)


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@dataclass(frozen=True)
class Case:
    """A model, its loss, and which of the rows below it takes. taken: the engine that is found for it."""

    model: Callable[[], nn.Module]
    loss: Callable[[object, Tensor], Tensor]
    rows: str
    taken: str
    only: Only | None = None
    close: float = 1e-5  # of the norm of an update, against the same steps in float64 or in the model's own precision


CASES = {
    "lstm": Case(lambda: Reader(nn.LSTM(WIDTH, WIDTH, batch_first=True)), F.cross_entropy, "tokens", "any"),
    "gru": Case(lambda: Reader(nn.GRU(WIDTH, WIDTH, batch_first=True)), F.cross_entropy, "tokens", "any"),
    "transformer": Case(lambda: Reader(encoder()), F.cross_entropy, "tokens", "loop"),
    "attention": Case(lambda: Reader(Attention()), F.cross_entropy, "tokens", "any"),
    "embedding": Case(lambda: Reader(nn.Tanh()), F.cross_entropy, "tokens", "any"),
    "tied weights": Case(lambda: Reader(nn.Tanh(), tied=True), F.cross_entropy, "tokens", "any"),
    "float64": Case(lambda: nn.Linear(WIDTH, 3).double(), F.cross_entropy, "classes", "vmap"),
    "bf16": Case(lambda: Speaks(dict).bfloat16(), heard, "classes", "vmap", close=2e-2),
    "fp16": Case(lambda: Speaks(dict).half(), heard, "classes", "vmap", close=4e-3),
    "dict": Case(lambda: Speaks(dict), heard, "classes", "any"),
    "object": Case(lambda: Speaks(Said), heard, "classes", "any"),
    "mse": Case(lambda: nn.Linear(WIDTH, 1), lambda y, t: F.mse_loss(y[:, 0], t), "values", "any"),
    "multi-label": Case(lambda: nn.Linear(WIDTH, 4), F.binary_cross_entropy_with_logits, "labels", "any"),
    "variable length": Case(Bag, F.cross_entropy, "sentences", "any"),
    "lora": Case(
        lambda: nn.Sequential(Adapted(WIDTH), Adapted(WIDTH), nn.Linear(WIDTH, 3)),
        F.cross_entropy,
        "classes",
        "any",
        Only("*lora*"),
    ),
    "frozen forward": Case(Frozen, F.cross_entropy, "classes", "any"),
}


def rows(kind: str, count: int, seed: int) -> object:
    """Made-up rows of a kind."""
    draw = torch.Generator().manual_seed(seed)
    if kind == "sentences":
        lengths = torch.randint(1, STEPS + 1, (count,), generator=draw).tolist()
        said = [torch.randint(1, TOKENS, (length,), generator=draw) for length in lengths]
        return samples((said, [int(words.sum()) % 2 for words in said]), pad=0, length=STEPS)
    if kind == "tokens":
        text = torch.randint(TOKENS, (count, STEPS + 1), generator=draw)
        return text[:, :-1], text[:, 1:]
    inputs = torch.randn(count, WIDTH, generator=draw, dtype=torch.float64).numpy()
    if kind == "values":
        return inputs, inputs.sum(1)
    if kind == "labels":
        return inputs, (torch.randn(count, 4, generator=draw) > 0).float()
    return inputs, torch.randint(3, (count,), generator=draw)


def task(case: Case) -> Task:
    """Five clients of four rows, and ten test rows."""
    torch.manual_seed(4)
    split = [list(range(k * ROWS, (k + 1) * ROWS)) for k in range(CLIENTS)]
    return Task(case.model(), case.loss, rows(case.rows, CLIENTS * ROWS, 1), split, rows(case.rows, 10, 2))
