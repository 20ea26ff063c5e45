"""One secure sum of hush with every message: CPU seconds of a client and of the server.

The sum itself is `secure_hush.py` of the tree that is measured, which knows the tree's own protocol; where that one
does not load, this tree's.
"""

import os
import sys
import time
from pathlib import Path

import talk
import torch

OWN = str(Path(os.environ["BENCH_TREE"]) / "benchmarks" / "workers")
sys.path.insert(0, OWN)
try:
    import secure_hush
except ImportError:  # as it was not kept up with the tree
    sys.path.remove(OWN)
    sys.modules.pop("secure_turns", None)
    import secure_hush

secure_hush.turn = lambda: None  # no other contender waits within the sum


def measure(rounds: int) -> talk.Answer:
    """So many sums."""
    seconds, clients, servers, start = [], [], [], talk.begin()
    for _ in range(rounds):
        began = time.perf_counter()
        found = secure_hush.answer(talk.OPTIONS)
        seconds.append(time.perf_counter() - began)
        clients.append(found["client"]["all"]["median"])
        servers.append(found["server"])
    means = {"client": sum(clients) / rounds, "server": sum(servers) / rounds}
    return talk.answer(seconds, start, talk.mark()) | means


if __name__ == "__main__":
    torch.set_num_threads(1)
    talk.serve(measure, ["torch", "cryptography"])
