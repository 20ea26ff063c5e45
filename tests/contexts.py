"""What a stage may know on both sides, in one value, for tests that are client and server at once."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from hush.core.memory import Kept, Memory
from hush.core.spec import Plan, Spec
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed


@dataclass(frozen=True)
class Context:
    """As ClientContext and ServerContext together; `clients` name the draws and the memory."""

    spec: Spec
    plan: Plan
    clients: np.ndarray
    sizes: Tensor
    secret: SecretSeed
    kept: Memory | None = None

    @property
    def draws(self) -> Draws:
        return Draws(self.secret, tuple(self.clients.tolist()))

    @property
    def memory(self) -> Kept | None:
        return None if self.kept is None else Kept(self.kept, tuple(self.clients.tolist()))
