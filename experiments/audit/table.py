"""The audit of one release, for several mechanisms: what is accounted, and what the trials show.

python experiments/audit/table.py experiments/audit/results.csv
python experiments/audit/table.py small.csv --trials 20000

One line for each mechanism, as soon as it is done, and the table for the README at the end.
"""

import argparse
import csv
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from hush.audit import audit, lower_bound, scores
from hush.parts.stages import AdaptiveClip, Clip, IntegerNoise, Noise, Quantise

DELTA, NOISE, STEPS, BITS = 1e-5, 1.3, 16, 8
HALVED = 10  # the trials at half the noise are so many times fewer

CASES = [
    *((Clip(1.0), noise, size, floor) for noise in ("skellam", "gaussian") for size in (16, 64) for floor in (1, 10)),
    *((AdaptiveClip(1.0), noise, 16, 1) for noise in ("skellam", "gaussian")),
    *((Clip(1.0), "continuous", 16, floor) for floor in (1, 10)),
]


def line(case: tuple[Clip | AdaptiveClip, str, int, int], trials: int) -> dict[str, object]:
    torch.set_num_threads(1)
    clip, kind, size, floor = case
    noise = Noise(NOISE) if kind == "continuous" else IntegerNoise(NOISE, kind)
    before = (clip,) if kind == "continuous" else (clip, Quantise(STEPS, BITS))
    found = audit((*before, noise), size, DELTA, floor=floor, trials=trials)
    # What is accounted for the integer noise, against what is left of it if somebody adds half.
    broken = (*before, replace(noise, multiplier=NOISE / 2))
    halved = lower_bound(*scores(broken, size, floor=floor, trials=trials // HALVED), DELTA)
    return {
        "clip": type(clip).__name__,
        "noise": kind,
        "size": size,
        "floor": floor,
        "trials": trials,
        "accounted": round(found.accounted, 3),
        "bound": round(found.bound.epsilon, 3),
        "ratio": round(found.bound.epsilon / found.accounted, 3),
        "trials_halved": trials // HALVED,
        "bound_halved": round(halved.epsilon, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--trials", type=int, default=10**6)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    lines = []
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool, given.out.open("w", newline="") as file:
        for found in pool.map(line, CASES, [given.trials] * len(CASES)):
            lines.append(found)
            table = csv.DictWriter(file, found.keys(), lineterminator="\n")
            if len(lines) == 1:
                table.writeheader()
            table.writerow(found)
            file.flush()
    shown = [name for name in lines[0] if not name.startswith("trials")]
    print("| " + " | ".join(shown) + " |")
    print("|" + "---|" * len(shown))
    for found in lines:
        print("| " + " | ".join(str(found[name]) for name in shown) + " |")


if __name__ == "__main__":
    main()
