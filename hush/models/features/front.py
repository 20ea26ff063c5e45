"""From images to rows of a few numbers, by public numbers alone: everybody can make the same front, without data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.errors import Mistake
from hush.models import workers
from hush.models.features.basis import Basis, normalised
from hush.models.features.colours import Colours
from hush.models.features.procedural import procedural_images
from hush.models.features.scattering import Scattering
from hush.models.features.store import Numbers, digest, kept
from hush.random.seeds import PublicSeed

GREY, COLOUR = 2, 3  # versions of what a front gives: a change to its parts makes a new one, and no old file fits
SIDE = 32  # pixels; a longer side is shrunk to it
LEAST = 8  # pixels; a shorter side is stretched to it, for scattering keeps one number of four, and not where it was
MOST = 600  # directions that a basis is made with
LARGE, MANY, FEW = 4096, 10_000, 4_000  # from so many features on a basis is of few procedural images, below of many
PALETTE = 1_000  # procedural images that say how colours differ
PIECE = 256  # images in one go

Progress = Callable[[int, int], None]  # so many images of so many are done


@dataclass(frozen=True, eq=False)
class Front:
    """Scattering, normalised, in a public basis: images of one shape to rows of `directions` numbers and a constant.

    Of several channels the colours are beside them. `numbers` describe it: who has the same ones has the same front, up
    to rounding.
    """

    shape: tuple[int, int, int]
    scattering: Scattering
    basis: Basis
    numbers: Numbers
    colours: Colours | None = None

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return self.basis.size + 1 + (0 if self.colours is None else self.colours.size)

    def __call__(self, images: Tensor, progress: Progress | None = None) -> Tensor:
        """(n, channels, height, width) to (n, width). `progress` hears how far it is."""
        if images.shape[1:] != self.shape:
            raise Mistake(f"images of shape {tuple(images.shape[1:])} do not fit a front for {self.shape}: make one")
        out = torch.empty(len(images), self.width)
        done = 0
        for found in _pieces(self._rows, images, progress):
            out[done : done + len(found)] = found
            done += len(found)
        return out

    def _rows(self, piece: Tensor) -> Tensor:
        found = self.basis(raw(self.scattering, piece, self.scattering.channels))
        return found if self.colours is None else torch.cat([found, self.colours(piece)], 1)

    def features(self, images: Tensor, progress: Progress | None = None) -> Tensor:
        """The same, from the cache on disk where these images went through this front before."""
        images = images.contiguous()
        numbers: Numbers = {"what": "features", "rows": len(images), "images": digest(images), **self.numbers}
        return kept(numbers, lambda: self(images, progress))


def front(
    shape: tuple[int, int, int], directions: int, order: int = 1, seed: int = 0, progress: Progress | None = None
) -> Front:
    """The front for images of shape (channels, height, width) that gives `directions` numbers and a constant.

    Of several channels it gives 16 numbers a channel more, for the colours. Small images have fewer
    directions.

    Its basis comes from procedural images of the public seed; it is kept in the cache. `progress` hears how many of
    them are done, where it is not there. Guarantee: no data is read.
    """
    scattering = Scattering(order)
    shape = (shape[0], shape[1], shape[2])
    if shape[1:] == (1, 1):
        raise Mistake(f"images of one pixel show nothing: give them as a table of shape (rows, {shape[0]})")
    sides = _sides(shape)
    size = scattering.shape(torch.Size((shape[0], *sides))).numel()
    small = (shape[0], min(shape[1], sides[0]), min(shape[2], sides[1]))
    if not 1 <= directions <= MOST:
        raise Mistake(f"features={directions} must be 1 to {MOST}: 60 for few bytes, 600 for accuracy")
    # The basis of several channels is the same in both versions; what stands beside it is not.
    numbers: Numbers = {"version": GREY, "order": order, "seed": seed}

    def fit() -> Tensor:
        made = procedural_images(MANY if size <= LARGE else FEW, small, PublicSeed(seed))
        features = torch.cat(list(_pieces(lambda piece: raw(scattering, piece, scattering.channels), made, progress)))
        basis = Basis.fit(features, MOST)
        return torch.cat([basis.mean[None], basis.directions.t()])

    whole = kept({"what": "basis", "shape": list(small), **numbers}, fit)
    basis = Basis(whole[0], whole[1:].t())
    basis = basis.first(min(directions, basis.size))  # small images have fewer
    # As many as there are: who asks for more has the same front, and the same file of it in the cache.
    numbers = {**numbers, "version": version(shape[0]), "shape": list(shape), "directions": basis.size}
    return Front(shape, scattering, basis, numbers, _colours(small, seed) if shape[0] > 1 else None)


def version(channels: int) -> int:
    """Of the front for images of so many channels."""
    return GREY if channels == 1 else COLOUR


def _colours(small: tuple[int, int, int], seed: int) -> Colours:
    """As procedural images have them; kept in the cache."""

    def fit() -> Tensor:
        found = Colours.fit(procedural_images(PALETTE, small, PublicSeed(seed)))
        return torch.stack([found.mean, found.deviation])

    return Colours(*kept({"what": "colours", "shape": list(small), "version": COLOUR, "seed": seed}, fit))


def _pieces(work: Callable[[Tensor], Tensor], images: Tensor, progress: Progress | None) -> Iterator[Tensor]:
    """work(images) piece by piece, in their order."""
    done = 0
    for found in workers.spread(work, torch.split(images, PIECE)):
        done += len(found)
        if progress is not None:
            progress(done, len(images))
        yield found


def raw(scattering: Callable[[Tensor], Tensor], images: Tensor, channels: int) -> Tensor:
    """Normalised scattering features, (n, numbers): `channels` of each channel of an image, normalised separately."""
    small = F.adaptive_avg_pool2d(images, _sides((images.shape[1], images.shape[2], images.shape[3])))
    found = scattering(small)
    planes = found.reshape(-1, channels, *found.shape[2:])
    return normalised(planes).reshape(images.shape[0], -1)


def _sides(shape: tuple[int, int, int]) -> tuple[int, int]:
    """Height and width as they are scattered: the longer at most SIDE, the shape kept, none below LEAST."""
    _, height, width = shape
    ratio = min(1.0, SIDE / max(height, width))
    return max(LEAST, round(height * ratio)), max(LEAST, round(width * ratio))
