"""The tight loop: client after client in plain PyTorch, on flat buffers. No privacy, no report. It is the 1.00."""

import talk
import torch
from nets import build
from torch.nn.functional import cross_entropy
from workload import CLIENTS, COHORT, RATE, ROWS, STEPS


def start(workload: str) -> talk.Measure:
    """One round per call: a cohort drawn without replacement, 5 full-batch steps each, the mean of the updates."""
    torch.set_num_threads(talk.CORES)
    torch.manual_seed(0)
    x, y = (torch.from_numpy(values) for values in talk.data(workload))
    model = build(workload)
    parameters = list(model.parameters())
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    slope = torch.zeros_like(flat)
    place = 0
    for p in parameters:  # weights and gradients are views of one buffer each
        p.data = flat[place : place + p.numel()].view(p.shape)
        p.grad = slope[place : place + p.numel()].view(p.shape)
        place += p.numel()
    weights, total = flat.clone(), torch.zeros_like(flat)

    def step() -> None:
        total.zero_()
        for client in torch.randperm(CLIENTS)[:COHORT].tolist():
            rows = slice(client * ROWS, (client + 1) * ROWS)
            inputs, targets = x[rows], y[rows]
            flat.copy_(weights)
            for _ in range(STEPS):
                slope.zero_()
                cross_entropy(model(inputs), targets).backward()
                flat.add_(slope, alpha=-RATE)
            total.add_(flat).sub_(weights)
        weights.add_(total, alpha=1 / COHORT)

    return talk.stepwise(step)


if __name__ == "__main__":
    talk.serve(start(talk.OPTIONS["workload"]), ["torch"])
