"""hush: whole rounds as the consumer of `hush.rounds` sees them, accounting, ledger, bytes and report included."""

import time
from dataclasses import replace

import talk
import torch
from torch.nn.functional import cross_entropy
from workload import CLASSES, CLIENTS, CLIP, COHORT, NOISE, RATE, ROWS, SHAPES, STEPS

import hush
from hush.models import networks

RATIO = 0.005
HEAD = ("9.weight", "9.bias")  # the CNN's last layer, 5,130 weights


def task(workload: str, clients: int, shared: bool) -> hush.Task:
    """The workload as a task of so many clients with 10 rows each.

    `shared` rows overlap in memory: row i begins one number after row i - 1, so that 10^7 of them need 40 MB. Every
    population then sits on the very same tensors.
    """
    x, y = (torch.from_numpy(values) for values in talk.data(workload))
    shape = torch.Size(SHAPES[workload])
    if shared:
        count = 10**7
        numbers = x.reshape(-1)[: count + shape.numel()].clone()
        strides = torch.empty(shape).stride()
        x = numbers.as_strided((count, *shape), (1, *strides))
        y = y.repeat(count // len(y) + 1)[:count].clone()
    split = hush.Split(torch.arange(clients * ROWS), torch.arange(clients + 1) * ROWS)
    model = networks.build(workload, shape, CLASSES, hush.PublicSeed(0))
    public = (x[:ROWS].clone(), y[:ROWS].clone())
    return hush.Task(model, cross_entropy, hush.Samples(x, y), split, public=public)


def scheme(name: str, cohort: int, head: bool) -> hush.Scheme:
    """A scheme of the catalogue; with `head` only the last layer's weights are live."""
    private = {"clip": CLIP, "noise": NOISE} if name.endswith("-dp") else {}
    settings = {"rate": RATE, "steps": STEPS, "batch": ROWS, "ratio": RATIO, "sampling": hush.Fixed(cohort), **private}
    found = hush.scheme(name, **settings)
    return replace(found, coordinates=hush.Only(HEAD)) if head else found


def main() -> None:
    """Serve rounds of one endless run."""
    options = talk.OPTIONS
    work = task(options["workload"], options.get("clients", CLIENTS), options.get("shared", False))
    plan = scheme(options["scheme"], options.get("cohort", COHORT), options.get("head", False))
    reports = hush.rounds(plan, work, rounds=10**6, transport=hush.Simulated())

    def profile() -> str:
        """One round under torch's profiler: the table of operations by their own CPU time."""
        threads = torch.profiler._ExperimentalConfig(profile_all_threads=True)
        spent = time.process_time()
        with torch.profiler.profile(experimental_config=threads) as seen:
            next(reports)
            spent = time.process_time() - spent
        means = seen.key_averages()
        inside = sum(mean.self_cpu_time_total for mean in means) / 1e6
        table = means.table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=50)
        words = f"CPU seconds of the round, with the profiler's own: {spent:.2f}; in torch's operations: {inside:.2f}"
        return f"{words}\n\n{table}"

    warm = options.get("warm", 1)
    talk.serve(talk.stepwise(lambda: next(reports)), ["torch", "hush-fl"], warm, {"profile": profile})


if __name__ == "__main__":
    main()
