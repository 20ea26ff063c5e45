"""A public basis for features of images: which few directions of them are kept, and how long each is made."""

from dataclasses import dataclass

import scipy.linalg
import torch
from torch import Tensor

from hush.errors import Mistake

GROUP = 3  # channels that are normalised together
FLOOR = 1e-3  # added to a deviation, and to the ratio of two eigenvalues
WHITE = -0.4  # the power of that ratio: -0.5 would be whitening
RANK = 1e-9  # a direction with a smaller part of the largest variance is rounding
CONSTANT = 0.2  # the last number of each row, in place of a bias


def normalised(features: Tensor) -> Tensor:
    """Each group of 3 channels of each row with mean 0, and divided by its deviation + 1e-3.

    (rows, channels, height, width) to the same shape. The last group has what is left of the channels. What is gone
    is the brightness and the contrast of an image.
    """
    whole, done = features.shape[1] // GROUP * GROUP, []
    for part, size in ((features[:, :whole], GROUP), (features[:, whole:], features.shape[1] - whole)):
        if part.shape[1]:
            groups = part.reshape(part.shape[0], part.shape[1] // size, -1)
            groups = groups - groups.mean(2, keepdim=True)
            deviation = groups.square().mean(2, keepdim=True).sqrt()
            done.append((groups / (deviation + FLOOR)).reshape(part.shape))
    return torch.cat(done, dim=1)


@dataclass(frozen=True, eq=False)
class Basis:
    """A mean (size) and directions (size, d), each scaled by (variance / largest variance + 1e-3)^-0.4."""

    mean: Tensor
    directions: Tensor

    @classmethod
    def fit(cls, features: Tensor, most: int) -> "Basis":
        """The mean and the first `most` principal directions of these features (or all, if they have fewer).

        A direction points where its largest entry is positive, so that whoever fits the same features gets the same
        basis, up to rounding.
        """
        if most < 1:
            raise Mistake(f"features={most} must be at least 1: how many numbers an image becomes")
        x = features.flatten(1).double()
        if len(x) < 2:
            raise Mistake(f"{len(x)} rows of features have no directions: give at least 2")
        mean = x.mean(0)
        x -= mean
        if x.shape[1] <= len(x):
            variances, directions = _largest(x.t() @ x / len(x), most)
        else:  # the smaller of two matrices with the same eigenvalues
            variances, sides = _largest(x @ x.t() / len(x), most)
            directions = x.t() @ (sides / (len(x) * variances).sqrt())
        top = directions.abs().argmax(0, keepdim=True)
        directions = directions * directions.gather(0, top).sign()
        scale = (variances / variances[0] + FLOOR) ** WHITE
        return cls(mean.float(), (directions * scale).float().contiguous())

    @property
    def size(self) -> int:
        """How many numbers it can give, without the constant."""
        return self.directions.shape[1]

    def first(self, count: int) -> "Basis":
        """The same basis with its first directions alone."""
        if not 1 <= count <= self.size:
            raise Mistake(f"features={count} must be 1 to {self.size}: as many as these images have")
        return Basis(self.mean, self.directions[:, :count].contiguous())

    def __call__(self, features: Tensor) -> Tensor:
        """(rows, ...) to (rows, d + 1): the coordinates, together of norm 1, and the constant 0.2.

        A row at the mean, which has no direction, stays 0.
        """
        rows = (features.flatten(1) - self.mean) @ self.directions
        norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        rows /= norms.clamp_min(torch.finfo(rows.dtype).tiny)
        return torch.cat([rows, rows.new_full((len(rows), 1), CONSTANT)], dim=1)


def _largest(matrix: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues, in falling order, and their eigenvectors; without those that are rounding."""
    size = len(matrix)
    # Only those that are wanted: of 600 among 4,000 that takes about six tenths of the time.
    found = scipy.linalg.eigh(matrix.numpy(), subset_by_index=(max(0, size - most), size - 1))
    values, vectors = (torch.from_numpy(part).flip(-1) for part in found)
    if not values[0] > 0:
        raise Mistake("all rows of features are the same: there is no direction in which they differ")
    kept = values > RANK * values[0]
    return values[kept], vectors[:, kept]
