"""What computes here, in words: two runs have the same last bits where it is the same, and elsewhere they may not."""

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

import numpy as np
import scipy
import torch

# Which kernels the libraries choose follows from these lines of the first processor,
_PROCESSOR = ("vendor_id", "cpu family", "model", "model name", "cache size", "flags", "CPU part", "Features")
# and from these variables.
LIMITS = (
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
)
# Raised whenever the same configuration gives other numbers than it did before, by this project's own doing.
_ARITHMETIC = 2


def kernels() -> str:
    """The processor with its vector instructions, the libraries, their threads, and what limits them."""
    words = [
        f"{_processor(Path('/proc/cpuinfo'))} {torch.backends.cpu.get_cpu_capability()}",
        f"arithmetic {_ARITHMETIC}",
        f"torch {torch.__version__}",
        f"numpy {np.__version__}",
        f"scipy {scipy.__version__}",
        f"math threads {torch.get_num_threads()}",
        *(f"{name}={os.environ[name]}" for name in LIMITS if name in os.environ),
    ]
    return ", ".join(words)


@cache
def _processor(table: Path) -> str:
    """Its name, and a digest of what it can do: a machine may hide its name."""
    try:
        first = table.read_text(encoding="utf-8").split("\n\n")[0]
    except (OSError, UnicodeDecodeError):
        first = ""
    pairs = (line.partition(":")[::2] for line in first.splitlines())
    found = {name.strip(): value.strip() for name, value in pairs}
    known = "\n".join(found.get(name, "") for name in _PROCESSOR)
    name = found.get("model name") or platform.processor() or platform.machine()
    return f"{name} {hashlib.sha256(known.encode()).hexdigest()[:8]}"
