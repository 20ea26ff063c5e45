"""The machine's matrix-product peak: float32 1024 x 1024 x 1024 by torch.mm, best of several."""

import time

import talk
import torch

SIDE = 1024


def gflops() -> float:
    """The best of 20 products, in GFLOP/s."""
    a, b, out = (torch.rand(SIDE, SIDE) for _ in range(3))
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - began)
    return 2 * SIDE**3 / best / 1e9


if __name__ == "__main__":
    torch.set_num_threads(talk.CORES)
    talk.serve(talk.stepwise(gflops), ["torch"], extra={"gflops": gflops})
