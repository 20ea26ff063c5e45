"""What a client keeps between rounds, on its disk: as it is if its last upload was taken, and as it is if not."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from hush.core.memory import Memory
from hush.data import files
from hush.errors import Mistake

BEFORE, AFTER = "before ", "after "


class Notebook:
    """The memory of one client in one run. Whether an upload was taken is known with the next plan alone.

    `note` writes both possible memories before the upload leaves; `turn` takes the one that became true.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, memory: Memory, round: int) -> None:
        """Before the upload of a round leaves."""
        if not memory.noted:
            return
        parts = {BEFORE: memory.state(), AFTER: memory.settled().state()}
        tensors = {
            part + name: torch.from_numpy(array) for part, arrays in parts.items() for name, array in arrays.items()
        }
        files.write(self.path, save(tensors, metadata={"round": json.dumps(round)}))

    def turn(self, taken: int) -> Memory:
        """The memory to begin the next round with, where `taken` is the last round whose upload was taken."""
        if not self.path.exists():
            return Memory()
        try:
            with safe_open(self.path, framework="pt") as file:
                noted = json.loads((file.metadata() or {})["round"])
                part = AFTER if noted == taken else BEFORE
                names = file.keys()
                mine = [name for name in names if name.startswith(part)]
                return Memory.of({name.removeprefix(part): file.get_tensor(name).clone().numpy() for name in mine})
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise Mistake(f"{self.path} cannot be read ({error}): restore it from a copy, or delete it") from None
