"""Does FL-CS always send the lowest coefficient of each chunk? Its bounds by both readings, beside the paper's.

python experiments/constrained/sensing.py [--seeds 5]    # a minute; prints a table in Markdown

With random rows of the cosine transform a bound is S^2 = r |u|^2, for u what one training on the public batch gives.
With the lowest row of each of the P chunks always sent, of energy e, it is S^2 = e + (|u|^2 - e) (r n - P) / (n - P).
"""

import argparse
import math
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy import fft

from hush.catalogue.clipping import PAPER_CLIP
from hush.core.spec import Plan
from hush.data.samples import Split
from hush.experiment import config, resolving
from hush.models.weights import flatten
from hush.random.seeds import SecretSeed

HERE = Path(__file__).parent
SETTINGS = {"fashion-mnist": ("image.toml", 200), "premier-virtual": ("medical.toml", 100)}  # and chunks, U Table 5


def update(file: str, seed: int) -> np.ndarray:
    """What one local training of all weights on the public batch gives: it has the norm S of FL-STD-DP."""
    wanted = config.read(HERE / file)
    scheme = wanted.scheme.model_copy(update={"name": "fl-std-dp", "ratio": None, "clip": "public"})
    run = wanted.run.model_copy(update={"seed": seed})
    built = resolving.build(wanted.model_copy(update={"scheme": scheme, "run": run}))
    task = built.task
    public = replace(task, train=task.public, split=Split.of([torch.arange(len(task.public))]))
    block = public.block(np.zeros(1, np.int64), SecretSeed.simulated(seed))
    return built.scheme.trainer.fit(block, Plan(1, flatten(task.model), None))[0].double().numpy()


def lowest(u: np.ndarray, chunks: int) -> float:
    """The energy of the lowest coefficient of every chunk, cut as hush.parts.stages.Sense cuts them."""
    length = math.ceil(len(u) / chunks)
    padded = np.zeros(length * chunks)
    padded[: len(u)] = u
    return float((fft.dct(padded.reshape(length, chunks), axis=0, norm="ortho")[0] ** 2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    print(
        "| data | r | S: paper | random rows | lowest row kept | its share of the energy |\n|---|---|---|---|---|---|"
    )
    for name, (file, chunks) in SETTINGS.items():
        found = [(u, lowest(u, chunks)) for u in (update(file, seed) for seed in seeds)]
        shares = [100 * e / float(u @ u) for u, e in found]
        for ratio, paper in PAPER_CLIP[name]["fl-cs-dp"].items():
            plain = [math.sqrt(ratio * float(u @ u)) for u, _ in found]
            kept = [
                math.sqrt(e + (float(u @ u) - e) * max(0.0, ratio * len(u) - chunks) / (len(u) - chunks))
                for u, e in found
            ]
            cells = [
                f"{median(values):.3g} ({min(values):.3g} to {max(values):.3g})" for values in (plain, kept, shares)
            ]
            print(f"| {name} | {100 * ratio:g} % | {paper} | {' | '.join(cells)} % |", flush=True)


if __name__ == "__main__":
    main()
