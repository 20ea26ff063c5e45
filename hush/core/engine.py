"""How clients are trained: by which engine, and where."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from hush.errors import Mistake

EngineKind = Literal["lockstep", "vmap", "loop"]


@dataclass(frozen=True)
class Engine:
    """How clients are trained, not what comes out: that is the same up to rounding.

    lockstep: a chunk of clients goes through the layers together; the weights that do not train are one copy,
    and each layer takes its step in the backward pass; a linear layer that takes sparse rows works with the
    columns that are set, client by client. vmap: any model that torch.func takes, all its weights once per client,
    dense rows. loop: any model, one client after the other.
    Without a kind the model decides, and a measured first block may overrule it. memory: bytes for what frozen
    layers gave.
    """

    kind: EngineKind | None = None
    device: str = "cpu"
    memory: int = 2**30

    def __post_init__(self) -> None:
        if self.kind not in (None, *get_args(EngineKind)):
            raise Mistake(f"engine={self.kind!r} is not known: choose lockstep, vmap or loop, or leave it out")
        if self.memory < 0:
            raise Mistake(f"memory={self.memory} must not be negative: bytes for what frozen layers gave")
        try:
            float(torch.zeros(1, device=self.device))
        except Exception:
            raise Mistake(f"device={self.device!r} cannot be used here: choose cpu or what torch has") from None

    @property
    def layered(self) -> bool:
        """Whether layers may be taken apart, on the CPU."""
        return self.kind in (None, "lockstep") and self.device == "cpu"
