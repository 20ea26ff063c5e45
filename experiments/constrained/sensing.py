"""Does FL-CS always send the lowest coefficient of each chunk? Its bounds by both readings, beside the paper's.

python experiments/constrained/sensing.py [--seeds 5]            # a minute; sensing.csv and the README's tables anew
python experiments/constrained/sensing.py --train fl-cs-dp@0.5%  # a row of U Table 8 with that coefficient, 10 minutes
python experiments/constrained/sensing.py --tables               # the README's tables alone, as `make tables` does

With random rows of the cosine transform a bound is S^2 = r |u|^2, for u what one training on the public batch gives.
With the lowest row of each of the P chunks always sent, of energy e, it is S^2 = e + (|u|^2 - e) (r n - P) / (n - P).
"""

import argparse
import csv
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy import fft

from hush.catalogue.clipping import PAPER_CLIP
from hush.core.spec import Plan
from hush.data.samples import Split
from hush.experiment import config, directory, resolving
from hush.experiment.report import runs
from hush.experiment.reproduce import plan, results
from hush.models.weights import flatten
from hush.parts.stages import sense
from hush.random.seeds import SecretSeed

HERE = Path(__file__).parent
TEXT, BOUNDS, TRAINED = HERE / "README.md", HERE / "sensing.csv", HERE / "sensing-trained.csv"
MARK = re.compile(r"(<!-- (sensing|sensing, trained) -->\n).*?(<!-- end -->)", re.DOTALL)
SETTINGS = {"fashion-mnist": ("image.toml", 200), "premier-virtual": ("medical.toml", 100)}  # and chunks, U Table 5
COLUMNS = ["data", "r", "S: paper", "random rows", "lowest row kept", "its share of the energy"]
OUTCOME = ["row", "seed", "accuracy: paper", "random rows", "lowest row kept", "commit"]


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


def bounds(seeds: range) -> list[dict[str, str]]:
    """A line for each of the paper's bounds of FL-CS-DP."""
    lines = []
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
            cells[2] += " %"
            lines.append(dict(zip(COLUMNS, [name, f"{100 * ratio:g} %", f"{paper}", *cells], strict=True)))
            print(*lines[-1].values(), sep=" | ", flush=True)
    return lines


def trained(name: str, seed: int, out: Path) -> dict[str, str]:
    """A row of U Table 8 whose clients always send the lowest row of each chunk, and a random one less."""
    usual = sense._map

    def kept(stage: sense.Sense, size: int) -> sense._Map:
        cut = usual(stage, size)
        places = cut.places.copy()
        places[cut.counts.cumsum() - cut.counts] = np.arange(stage.chunks)  # the first row of each chunk
        return replace(cut, places=places)

    (row,) = plan.chosen(plan.find(HERE.parent, "u-table8"), [name])
    if not row.scheme.startswith("fl-cs"):
        raise SystemExit(f"{name} senses nothing: choose a row of fl-cs or fl-cs-dp")
    commit, built = results.commit(HERE), resolving.build(row.config(seed))
    sense._map = kept
    directory.open_directory(out, built.config, resume=True)
    for round in directory.execute(built, out):
        print(f"round {round['round']}: {round.get('accuracy')}", flush=True)
    best = max(value for _, value in runs.accuracies(runs.read(out), "accuracy"))
    plain = [one.best for one in results.read(HERE) if (one.row, one.seed) == (name, seed)]
    cells = [name, f"{seed}", row.published["accuracy"], f"{plain[0]:.3f}" if plain else "-", f"{best:.3f}", commit]
    return dict(zip(OUTCOME, cells, strict=True))


def current() -> str:
    """The README with its tables as the files have them."""
    made = {"sensing": BOUNDS, "sensing, trained": TRAINED}

    def table(path: Path) -> str:
        with path.open(newline="") as file:
            lines = list(csv.reader(file))
        return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], ["---"] * len(lines[0]), *lines[1:]))

    return MARK.sub(lambda found: found[1] + table(made[found[2]]) + found[3], TEXT.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--train", metavar="ROW", help="train this row with the lowest row of each chunk kept")
    parser.add_argument("--seed", type=int, default=0, help="of that training")
    parser.add_argument("--out", type=Path, default=Path("runs/sensing"), help="where that training is kept")
    parser.add_argument("--tables", action="store_true")
    asked = parser.parse_args()
    if asked.train:
        place = asked.out / f"{asked.train}-{asked.seed}"
        line = trained(asked.train, asked.seed, place)
        known = []
        if TRAINED.exists():
            with TRAINED.open(newline="") as file:
                known = [
                    one for one in csv.DictReader(file) if (one["row"], one["seed"]) != (line["row"], line["seed"])
                ]
        _write(TRAINED, OUTCOME, sorted([*known, line], key=lambda one: (one["row"], one["seed"])))
    elif not asked.tables:
        _write(BOUNDS, COLUMNS, bounds(range(asked.seeds)))
    TEXT.write_text(current())


def _write(path: Path, columns: list[str], lines: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(lines)


if __name__ == "__main__":
    main()
