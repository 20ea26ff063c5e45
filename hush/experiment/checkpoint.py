"""A run's state on disk: one file, written whole or not at all, refused if a bit of it changed."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from hush.core.memory import Memory
from hush.core.state import Books, State
from hush.core.traffic import Traffic
from hush.data import files
from hush.errors import Mistake
from hush.privacy.views import Participation

Facts = dict[str, Any]
KEPT = ("live", "optimizer", "average", "downlink_error")  # of a state, where it has them
FORMAT = 2  # of the names in the file; the first one had none


def save_state(path: Path, state: State, facts: Facts) -> None:
    """The state and a few plain facts of the caller."""
    tensors = {"weights": state.weights, "traffic": torch.from_numpy(state.traffic.counts)}
    kept = {name: getattr(state, name) for name in KEPT}
    tensors |= {name: tensor for name, tensor in kept.items() if tensor is not None}
    tensors |= {f"memory {name}": torch.from_numpy(a) for name, a in state.memory.state().items()}
    tensors |= {f"joined {name}": torch.from_numpy(a) for name, a in state.participation.state().items()}
    phases = state.traffic.phases
    tensors |= {f"phase {name}": torch.from_numpy(both) for name, both in phases.items()}
    head: Facts = {"format": FORMAT, "round": state.round, "clip": state.clip, "facts": facts}
    head |= {"phases": list(phases)} if phases else {}  # their order, which the file's tensors do not keep
    meta = {"head": json.dumps(head), "digest": digest(tensors, json.dumps(head))}
    files.write(path, save(tensors, metadata=meta))


def load_state(path: Path) -> tuple[State, Facts]:
    """What save_state wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            names = file.keys()
            # Copies, which torch aligns: a product over rows of a mapped file may take another path of its kernel.
            tensors = {name: file.get_tensor(name).clone() for name in names}
        if digest(tensors, meta.get("head", "")) != meta.get("digest"):
            raise Mistake(f"checkpoint {path} is corrupt: start the run again in a new directory")
    except (SafetensorError, OSError) as error:
        raise Mistake(f"checkpoint {path} cannot be read ({error}): start the run again in a new directory") from None
    head = json.loads(meta["head"])
    if head.get("format") != FORMAT:
        raise Mistake(f"checkpoint {path} is of another version of hush: go on with that version, or start a new run")
    counts = tensors["traffic"].numpy()
    joined, memory = (_arrays(tensors, part) for part in ("joined ", "memory "))
    phases = {name: tensors[f"phase {name}"].numpy() for name in head.get("phases", ())}
    traffic = Traffic(counts.shape[1], counts, phases)
    books = Books(head["round"], traffic, Participation.of(joined), Memory.of(memory))
    kept = {name: tensors.get(name) for name in KEPT}
    whole = State(round=head["round"], weights=tensors["weights"], clip=head["clip"], books=books, **kept)
    return whole, head["facts"]


def _arrays(tensors: dict[str, torch.Tensor], part: str) -> dict[str, Any]:
    return {name.removeprefix(part): t.numpy() for name, t in tensors.items() if name.startswith(part)}


def digest(tensors: dict[str, torch.Tensor], head: str) -> str:
    """SHA-256 of a text and of named tensors, of any type."""
    whole = hashlib.sha256(head.encode())
    for name in sorted(tensors):
        whole.update(name.encode())
        # No copy: they may be as long as the population. As bytes: numpy does not know bfloat16.
        whole.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
