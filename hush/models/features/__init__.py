"""Features that are known before any data: what comes of an image before anything is learned.

`hush.models.features.front.front` makes a front, which turns images into rows of a few numbers.
"""

from hush.models.features.rows import unit
from hush.models.features.scattering import Scattering

__all__ = ["Scattering", "unit"]
