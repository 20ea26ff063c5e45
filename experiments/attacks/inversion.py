"""What one upload of a client with one picture shows of it: the picture, found again by two attacks, scheme by scheme.

python experiments/attacks/inversion.py [--jobs 2] [--kept runs/inversion]

Fashion-MNIST, one picture a client, the first round from the initial weights, one local step. analytic: the papers'
medical network, whose first layer is linear. matching: the first paper's image network. Each picture that is found is
kept in a folder, and is not looked for again; then inversion.csv, inversion.png and inversion.md are written.
"""

import argparse
import csv
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

import hush
from hush.audit.analytic import Analytic, first_layer
from hush.audit.inversion import Attack, invert
from hush.audit.matching import Matching
from hush.audit.upload import see
from hush.data.registry import dataset
from hush.models.networks import build
from hush.random.seeds import PublicSeed

HERE = Path(__file__).parent
RATE, CLIENTS, COHORT = 0.215, 6000, 100
PICTURES = (0, 3, 7)  # clients, and rows of the training set: a boot, a dress, a pullover
NETWORKS = {"analytic": "mlp", "matching": "cnn"}
# The papers' bounds and noise, at their epsilon of 1: 100 of 6,000 clients for 200 rounds; of fl-sign-dp for records.
SHARES = {"clip": 2.40, "noise": 1.54}
SCHEMES: dict[str, dict[str, Any]] = {
    "fl-std": {},
    "fl-top": {"ratio": 0.005},
    "fl-sign": {},
    "two-bit": {"precision": 32, "bound": 1.0},
    "fl-std-dp": SHARES,
    "fl-top-dp": {**SHARES, "ratio": 0.005, "clip": 0.61},
    "fl-sign-dp": {"clip": 2.0, "noise": 1.08, "batch": 1, "balance": "none"},
    "two-bit-dp": SHARES,
}
SMOOTH = {"fl-std": 0.02, "fl-top": 0.1}  # the total variation's weight, where there are floats without noise
ROUGH = 0.2  # and where there are codes or noise
SOFT = {"fl-sign-dp": 10.0}  # signs of far more noise than update: what is expected of them is linear in it
BASELINE = "mean of public rows"


def task(network: str) -> hush.Task:
    """One row a client; the public rows are the first 1,000 of the test set."""
    data = dataset("fashion-mnist")
    assert data.test is not None
    model = build(network, torch.Size([1, 28, 28]), 10, PublicSeed(0))
    public = data.test.rows(torch.arange(1000))
    return hush.Task(model, torch.nn.functional.cross_entropy, data.train, [[k] for k in range(CLIENTS)], public=public)


def attack(name: str, scheme: str) -> Attack:
    if name == "analytic":
        return Analytic()
    return Matching(RATE, restarts=1, smooth=SMOOTH.get(scheme, ROUGH), soft=SOFT.get(scheme, 0.03))


def work(case: tuple[str, str, int, Path]) -> str:
    """One picture, kept in a file of its own."""
    name, how, client, file = case
    torch.set_num_threads(1)
    scheme = hush.scheme(name, sampling=hush.Fixed(COHORT), rate=RATE, steps=1, **SCHEMES[name])
    problem = task(NETWORKS[how])
    found = invert(scheme, problem, client, attack(how, name))
    if (name, how) == ("fl-top", "analytic"):  # as the text says
        assert not first_layer(see(scheme, problem, client))[1][:, :-1].any()
    np.savez(
        file,
        original=found.originals.numpy(),
        found=found.reconstructions.numpy(),
        likeness=[found.psnr[0], found.ssim[0]],
        baseline=[found.baseline[0][0], found.baseline[1][0]],
    )
    return f"{file.stem}: {found.psnr[0]:.2f} dB beside {found.baseline[0][0]:.2f}, {found.seconds:.0f} s"


def lines(kept: Path) -> Iterator[dict[str, object]]:
    """The table: what takes no upload, then scheme by scheme."""
    for client in PICTURES:
        with np.load(kept / f"fl-std-analytic-{client}.npz") as stored:
            yield _line(BASELINE, "none", client, stored["baseline"])
    for how in NETWORKS:
        for name in SCHEMES:
            for client in PICTURES:
                with np.load(kept / f"{name}-{how}-{client}.npz") as stored:
                    yield _line(name, how, client, stored["likeness"])


def _line(name: str, how: str, client: int, likeness: Any) -> dict[str, object]:
    return {
        "scheme": name,
        "attack": how,
        "picture": client,
        "psnr": f"{likeness[0]:.2f}",
        "ssim": f"{likeness[1]:.3f}",
    }


def draw(kept: Path, out: Path) -> None:
    """Originals in the first row, the reconstructions of each scheme in a row below."""
    public = dataset("fashion-mnist").test
    assert public is not None
    guess = public.inputs[:1000].mean(0)[0].numpy()
    names, each = list(SCHEMES), len(PICTURES)
    figure = plt.figure(figsize=(6.4, 8.6))
    grid = figure.add_gridspec(
        len(names) + 2, 2 * each + 1, width_ratios=[1] * each + [0.25] + [1] * each, wspace=0.06, hspace=0.06
    )
    figure.subplots_adjust(left=0.16, right=0.99, top=0.95, bottom=0.01)
    for side, how in enumerate(NETWORKS):
        for column, client in enumerate(PICTURES):
            for row, name in enumerate(["original", BASELINE, *names]):
                axes = figure.add_subplot(grid[row, column + side * (each + 1)])
                with np.load(kept / f"{name if row > 1 else names[0]}-{how}-{client}.npz") as stored:
                    shown = guess if row == 1 else stored["original" if row == 0 else "found"][0, 0]
                axes.imshow(shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                axes.set_xticks([])
                axes.set_yticks([])
                for edge in axes.spines.values():
                    edge.set(color="0.8", linewidth=0.5)
                if side == column == 0:
                    words = "mean of\npublic rows" if row == 1 else name
                    axes.set_ylabel(words, rotation=0, ha="right", va="center", fontsize=10, labelpad=6)
                if row == 0 and column == each // 2:
                    network = {"mlp": "linear first layer", "cnn": "convolutions"}[NETWORKS[how]]
                    axes.set_title(f"{how} ({network})", fontsize=10, pad=6)
    figure.savefig(out, dpi=110)
    plt.close(figure)


def report(table: list[dict[str, Any]]) -> str:
    """The table of means for people."""
    text = [
        "# What one upload shows of a picture",
        "",
        "Written by `python experiments/attacks/inversion.py` from inversion.csv: means over"
        f" {len(PICTURES)} pictures of Fashion-MNIST, each the only one of its client.",
        "An attack reads one upload of the first round (one local step from the initial weights) and all that is",
        "public, and looks for the picture. PSNR in dB; SSIM is 1 for equal pictures. The first line is what a guess",
        "without any upload comes to. Where figures are not above it, this attack found nothing, which is no proof",
        "that there is nothing to find. By how much they are below says nothing of the scheme: matching does not weigh",
        "what it finds against that guess, as analytic does. Its two weights (smooth, soft) were chosen on these",
        "pictures.",
        "",
        "analytic: a network whose first layer is linear; no weight of it is in the Top-K of fl-top. matching: the",
        "first paper's convolutional network, and the picture by optimisation. Exact pictures count as 100 dB. The",
        "noise is that of the papers at their epsilon of 1; one upload has its share of it alone, but for fl-sign-dp,",
        "which protects records.",
        "",
        "![originals, and what was found](inversion.png)",
        "",
        "| scheme | analytic: PSNR | SSIM | matching: PSNR | SSIM |",
        "|---|---|---|---|---|",
    ]
    for name in (BASELINE, *SCHEMES):
        cells = [name]
        for how in NETWORKS:
            own = [row for row in table if row["scheme"] == name and row["attack"] in (how, "none")]
            cells += [
                f"{mean(float(row['psnr']) for row in own):.1f}",
                f"{mean(float(row['ssim']) for row in own):.2f}",
            ]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=Path("runs/inversion"))
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    cases = [
        (name, how, client, given.kept / f"{name}-{how}-{client}.npz")
        for how in NETWORKS
        for client in PICTURES
        for name in SCHEMES
    ]
    waiting = [case for case in cases if not case[-1].exists()]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for said in pool.map(work, waiting):
            print(said, flush=True)
    table = list(lines(given.kept))
    with (HERE / "inversion.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    draw(given.kept, HERE / "inversion.png")
    (HERE / "inversion.md").write_text(report(table))


if __name__ == "__main__":
    main()
