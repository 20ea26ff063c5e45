"""What travels between the processes of a cluster: a pickle, and beside it the numbers of its tensors as they lie.

An object store keeps arrays where every process of a node can read them, so that these are not copied.
"""

import io
import pickle
import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Numbers = npt.NDArray[Any]


class Parcel(NamedTuple):
    """A value whose tensors lie in `buffers`."""

    pickled: bytes
    buffers: list[Numbers]


def pack(value: object, pickler: Any = pickle.Pickler) -> Parcel:
    """A parcel of the value; `pickler` is the class that knows functions and classes that cannot be imported."""
    stream, buffers = io.BytesIO(), list[Numbers]()

    class Pickler(pickler):
        def reducer_override(self, thing: Any) -> Any:
            if type(thing) is Tensor and thing.device.type == "cpu" and thing.layout == torch.strided:
                # In the order in which they lie: another one, and kernels may round otherwise.
                axes = sorted(range(thing.dim()), key=thing.stride, reverse=True)
                return _view, (thing.detach().permute(axes).contiguous().numpy(), axes)
            above = getattr(super(), "reducer_override", None)
            return NotImplemented if above is None else above(thing)

    def keep(buffer: pickle.PickleBuffer) -> None:
        buffers.append(np.frombuffer(buffer.raw(), np.uint8))

    Pickler(stream, protocol=5, buffer_callback=keep).dump(value)
    return Parcel(stream.getvalue(), buffers)


def unpack(parcel: Parcel, own: bool = False) -> Any:
    """The value. Its tensors are only to be read, or a copy of one's `own`."""
    # A copy lies as torch aligns what it makes itself: kernels may round otherwise where numbers lie otherwise.
    buffers = [torch.tensor(numbers).numpy() for numbers in parcel.buffers] if own else parcel.buffers
    return pickle.loads(parcel.pickled, buffers=buffers)


def _view(numbers: Numbers, axes: list[int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # and nobody writes
        return torch.from_numpy(numbers).permute([axes.index(axis) for axis in range(len(axes))])
