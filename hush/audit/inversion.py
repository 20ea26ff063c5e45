"""Rows of a client from one upload of it (gradient inversion), and how like the true ones they are."""

import io
import math
import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from hush.audit.upload import Seen, see
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.errors import Mistake

EXACT = 100.0  # dB; nearer rows count as this near
WINDOW = 7  # pixels of a side, over which SSIM compares


class Attack(Protocol):
    """Rows from what a reader of one upload has, and nothing else."""

    def reconstruct(self, seen: Seen) -> Tensor:
        """As many rows as the upload is of."""
        ...


@dataclass(frozen=True, eq=False)
class Inversion:
    """A client's rows and what an attack made of its upload, in the order in which they fit best.

    `psnr` (dB) and `ssim` (1: equal) are those of each row; `baseline` are the PSNR and SSIM of the mean of all public
    rows as the guess, which takes no upload: a reconstruction that is no better has learned nothing.
    """

    originals: Tensor
    reconstructions: Tensor
    psnr: tuple[float, ...]
    ssim: tuple[float, ...]
    baseline: tuple[tuple[float, ...], tuple[float, ...]]
    low: float
    high: float
    seconds: float

    @property
    def gained(self) -> float:
        """The mean PSNR above that of the baseline, in dB."""
        return (sum(self.psnr) - sum(self.baseline[0])) / len(self.psnr)


def invert(
    scheme: Scheme,
    task: Task,
    client: int,
    attack: Attack,
    *,
    weights: Tensor | None = None,
    round: int = 1,
    seed: int = 0,
) -> Inversion:
    """One upload by the scheme's own client code, what the attack makes of it, and what the client really holds.

    The round begins at `weights`, the model's own if not given. The attack is given the upload, the plan and the public
    problem (Seen); the client's rows are looked up afterwards, to compare.
    """
    if not 0 <= client < task.clients:
        raise Mistake(f"client={client} is not one of the {task.clients}: count them from 0")
    seen = see(scheme, task, client, weights=weights, round=round, seed=seed)
    began = time.perf_counter()
    found = attack.reconstruct(seen)
    seconds = time.perf_counter() - began
    originals = task.population.own(client).data.inputs[:]
    low, high = float(seen.rows.min()), float(seen.rows.max())
    found = matched(found, originals)
    mean = seen.rows.mean(0).expand_as(originals)
    return Inversion(
        originals,
        found,
        psnr(found, originals, high - low),
        ssim(found, originals, high - low),
        (psnr(mean, originals, high - low), ssim(mean, originals, high - low)),
        low,
        high,
        seconds,
    )


def matched(found: Tensor, originals: Tensor) -> Tensor:
    """The found rows in the order of the originals that has the least squared error; an update has no order."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    errors = torch.cdist(originals.flatten(1).double(), found.flatten(1).double()).square()
    return found[torch.from_numpy(linear_sum_assignment(errors.numpy())[1])]


def psnr(found: Tensor, originals: Tensor, span: float) -> tuple[float, ...]:
    """10 log10(span^2 / mean squared error) of each row, at most EXACT."""
    errors = (found.double() - originals.double()).square().flatten(1).mean(1)
    return tuple(min(EXACT, -10 * math.log10(max(error / span**2, 1e-300))) for error in errors.tolist())


def ssim(found: Tensor, originals: Tensor, span: float) -> tuple[float, ...]:
    """Structural similarity (Wang et al. 2004) of each row, over windows of WINDOW pixels that all count alike."""
    x, y = (
        rows.double() if rows.dim() == 4 else rows.double().flatten(1)[:, None, None] for rows in (found, originals)
    )
    sides = [min(WINDOW, side) for side in x.shape[2:]]

    def local(rows: Tensor) -> Tensor:
        return F.avg_pool2d(rows, sides, 1)

    c, d = (0.01 * span) ** 2, (0.03 * span) ** 2
    mx, my = local(x), local(y)
    vx, vy, both = local(x * x) - mx * mx, local(y * y) - my * my, local(x * y) - mx * my
    likeness = (2 * mx * my + c) * (2 * both + d) / ((mx * mx + my * my + c) * (vx + vy + d))
    return tuple(likeness.flatten(1).mean(1).tolist())


def picture(inversion: Inversion, scale: int = 2) -> bytes:
    """A PNG: the originals side by side, below them the reconstructions; images of one channel, or of three."""
    shown = torch.stack([inversion.originals, inversion.reconstructions])
    if shown.dim() != 5 or shown.shape[2] not in (1, 3):
        raise Mistake(
            f"rows of shape {tuple(shown.shape[2:])} are no images: one has 1 or 3 channels, height and width"
        )
    if scale < 1:
        raise Mistake(f"scale={scale} must be at least 1: the pixels of a side that each pixel becomes")
    bright = ((shown - inversion.low) / (inversion.high - inversion.low) * 255).round().clamp(0, 255).byte()
    framed = F.pad(bright, (1, 1, 1, 1), value=255)
    rows, columns, channels, height, width = framed.shape
    whole = framed.permute(0, 3, 1, 4, 2).reshape(rows * height, columns * width, channels).numpy()
    whole = np.kron(whole, np.ones((scale, scale, 1), np.uint8))
    file = io.BytesIO()
    Image.fromarray(whole.squeeze(2) if channels == 1 else whole).save(file, "PNG", optimize=True)
    return file.getvalue()
