"""Images that show nothing anybody ever saw: textured shapes on a ground, from a public seed.

They stand in for data where only the statistics of edges and surfaces matter, such as the directions in which
features of images differ. No data is read, so they cost no privacy.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.errors import Mistake
from hush.random.seeds import PublicSeed

PIECE = 256  # images of one stream of draws: other values are other images
SHAPES = 5  # at most, in one image
SIDES = 7  # of a polygon, at most

Numbers = npt.NDArray[np.float32]


def procedural_images(count: int, shape: tuple[int, int, int], seed: PublicSeed) -> Tensor:
    """`count` images of shape (channels, height, width), values in [0, 1].

    Each has a ground and 1 to 5 ellipses, rectangles or polygons of 3 to 7 sides about its middle, one over the other,
    turned and stretched at will. Most grounds and some shapes are plain; others have waves, crossed waves, a slope or
    grain. Half of the grounds are dark, and half of the images are the same on the left and on the right, as many
    things are. Image i depends on the seed, the shape and i alone.
    """
    if count < 1:
        raise Mistake(f"count={count} must be at least 1: how many images to make")
    if len(shape) != 3 or min(shape) < 1:
        raise Mistake(f"shape={tuple(shape)} must be three positive numbers: channels, height, width")
    out = torch.empty(count, *shape)
    for first in range(0, count, PIECE):
        few = min(PIECE, count - first)
        random = seed.generator("pictures", *shape, first)
        out[first : first + few] = torch.from_numpy(_piece(random, shape)[:few])
    return out


def _piece(random: np.random.Generator, shape: tuple[int, int, int]) -> Numbers:
    """A piece of images; always whole, so that their draws do not depend on how many are wanted."""
    channels, height, width = shape
    # The shorter side reaches from -1 to 1; pixels are squares.
    pixel = 2.0 / min(height, width)
    y, x = (pixel * (np.arange(n) - (n - 1) / 2) for n in (height, width))
    at = x.astype(np.float32)[None, None, :], y.astype(np.float32)[None, :, None]
    reach = x.max(initial=0.5), y.max(initial=0.5)
    canvas = _surface(random, channels, at, pixel, plain=0.8, dark=0.5)
    number = random.integers(1, SHAPES + 1, PIECE)
    for place in range(SHAPES):
        cover = _cover(random, at, reach, pixel) * (place < number)[:, None, None].astype(np.float32)
        canvas += cover[:, None] * (_surface(random, channels, at, pixel, plain=0.3, dark=0.0) - canvas)
    even = random.random(PIECE) < 0.5
    canvas[even, :, :, : width // 2] = canvas[even, :, :, : -(width // 2) - 1 : -1]
    return np.clip(canvas, 0.0, 1.0)


def _cover(
    random: np.random.Generator, at: tuple[Numbers, Numbers], reach: tuple[float, float], pixel: float
) -> Numbers:
    """How much of each pixel a shape covers, about: (images, height, width), soft at the edges.

    In its own axes (u, v) a shape is {f <= 1}: f = |(u, v)| for an ellipse, max(|u|, |v|) for a rectangle and the
    largest of some linear functions for a polygon. About an edge, (1 - f) * short is a distance along the short axis.
    """
    turn = _each(random.uniform(0, np.pi, PIECE))
    long = np.exp(random.uniform(np.log(0.25), 0.0, PIECE))
    short = long * np.exp(random.uniform(np.log(0.15), 0.0, PIECE))
    x, y = (a - _each(random.uniform(-0.4, 0.4, PIECE) * r) for a, r in zip(at, reach, strict=True))
    u = (np.cos(turn) * x + np.sin(turn) * y) / _each(long)
    v = (np.cos(turn) * y - np.sin(turn) * x) / _each(short)
    kind = random.integers(0, 3, PIECE)
    sides = random.integers(3, SIDES + 1, PIECE)
    bends, depths = random.uniform(-0.25, 0.25, (SIDES, PIECE)), random.uniform(0.5, 1.0, (SIDES, PIECE))
    f = np.empty(np.broadcast_shapes(u.shape, v.shape), np.float32)
    np.hypot(u, v, out=f, where=_which(kind == 0))
    np.maximum(np.abs(u), np.abs(v), out=f, where=_which(kind == 1))
    polygon = kind == 2
    u, v, corner = u[polygon], v[polygon], np.full_like(f[polygon], -np.inf)
    for side in range(SIDES):
        # Of a polygon with fewer sides the first come twice, and change nothing.
        angle = 2 * np.pi * (side % sides + bends[side % sides, np.arange(PIECE)]) / sides
        depth = depths[side % sides, np.arange(PIECE)]
        a, b = (_each((way(angle) / depth)[polygon]) for way in (np.cos, np.sin))
        np.maximum(corner, a * u + b * v, out=corner)
    f[polygon] = corner
    cover: Numbers = np.clip((1 - f) * _each(short / pixel) + np.float32(0.5), 0.0, 1.0)
    return cover


def _surface(
    random: np.random.Generator, channels: int, at: tuple[Numbers, Numbers], pixel: float, plain: float, dark: float
) -> Numbers:
    """What a ground or a shape looks like: (images, channels, height, width), a colour and a texture on it.

    `plain` and `dark` are the probabilities of no texture and of no light.
    """
    x, y = at
    turn = _each(random.uniform(0, np.pi, PIECE))
    # From a wave over the whole image to one of three pixels.
    wave = _each(np.exp(random.uniform(np.log(np.pi), np.log(max(4.0, 2 * np.pi / (3 * pixel))), PIECE)))
    phase, other = (_each(random.uniform(0, 2 * np.pi, PIECE)) for _ in range(2))
    along, across = np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x
    kind = np.where(random.random(PIECE) < plain, 0, random.integers(1, 5, PIECE))
    texture = np.zeros((PIECE, y.shape[1], x.shape[2]), np.float32)  # kind 0 is plain
    np.sin(wave * along + phase, out=texture, where=_which((kind == 1) | (kind == 2)))
    np.multiply(texture, np.sin(wave * across + other), out=texture, where=_which(kind == 2))
    np.copyto(texture, along, where=_which(kind == 3))
    grain = random.random(texture.shape, np.float32) * 2 - 1
    np.copyto(texture, grain, where=_which(kind == 4))
    strength = random.uniform(0.05, 0.5, PIECE)
    base = random.random((PIECE, channels)) * (random.random((PIECE, 1)) >= dark)
    tint = strength[:, None] * random.uniform(0.5, 1.0, (PIECE, channels))
    return base.astype(np.float32)[:, :, None, None] + tint.astype(np.float32)[:, :, None, None] * texture[:, None]


def _each(values: npt.NDArray[Any]) -> Numbers:
    """One number for each image, to go with (images, height, width)."""
    return values.astype(np.float32)[:, None, None]


def _which(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """One truth for each image, to go with (images, height, width)."""
    return mask[:, None, None]
