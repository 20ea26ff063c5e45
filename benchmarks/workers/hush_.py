"""hush: whole rounds as the consumer of `hush.rounds` sees them, accounting, ledger, bytes and report included."""

import time
from dataclasses import replace

import talk
import torch
from torch.nn.functional import cross_entropy
from workload import CLASSES, CLIENTS, CLIP, COHORT, HELD, NOISE, RATE, RECORD_STEPS, ROWS, SHAPES, STEPS, WIDTH

import hush
from hush.data.sparse import Sparse
from hush.models import networks
from hush.models.losses import binary

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


def medical() -> hush.Task:
    """The medical network on sparse records; some belong to no hospital and are public."""
    found = {name: torch.from_numpy(values) for name, values in talk.records().items()}
    rows = hush.Samples(Sparse(found["starts"], found["columns"], found["values"], WIDTH), found["y"])
    held = int(found["clients"][-1])
    split = hush.Split(torch.arange(held), found["clients"])
    model = networks.build("mlp", torch.Size((WIDTH,)), 1, hush.PublicSeed(0))
    return hush.Task(model, binary, rows, split, public=rows.rows(torch.arange(held, len(rows))))


def scheme(name: str, workload: str, cohort: int, head: bool) -> hush.Scheme:
    """A scheme of the catalogue; with `head` only the last layer's weights are live."""
    private = {"clip": CLIP, "noise": NOISE} if name.endswith("-dp") else {}
    # All rows of a client in each step.
    steps = {"steps": RECORD_STEPS, "batch": HELD[1]} if workload == "medical" else {"steps": STEPS, "batch": ROWS}
    settings = {"rate": RATE, "ratio": RATIO, "sampling": hush.Fixed(cohort), **steps, **private}
    found = hush.scheme(name, **settings)
    return replace(found, coordinates=hush.Only(HEAD)) if head else found


def main() -> None:
    """Serve rounds of one endless run."""
    options = talk.OPTIONS
    workload, clients = options["workload"], options.get("clients", CLIENTS)
    work = medical() if workload == "medical" else task(workload, clients, options.get("shared", False))
    plan = scheme(options["scheme"], workload, options.get("cohort", COHORT), options.get("head", False))
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
