"""From a data set's own rows to those that a network takes: as they are, or public features of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

import torch
from torch import Tensor, nn

from hush.data.fetch import Say
from hush.data.registry import DataSet
from hush.data.sparse import Sparse
from hush.errors import Mistake, first_line
from hush.experiment.own import function
from hush.models.features import front as public
from hush.models.features import unit
from hush.models.features.front import Progress
from hush.models.features.module import FrontModule, UnitModule

Inputs = Tensor | Sparse
Function = Callable[[Tensor], Any]  # of raw rows, one row of features each

_NONE: dict[str, Any] = {"features": None, "scattering_order": None}
PIECE = 256  # rows that a function of the user's own gets in one go
FEW, CLOSE = 4, 1e-4  # rows that are tried alone and together, and how far they may differ, of the largest number


class Front(Protocol):
    """Raw rows in, the network's rows out.

    about: in JSON's own types, from which `made` makes it again. settings: of [scheme], as it came out. notes: for the
    privacy card. basis: its numbers are directions that hardly say the same, so that blocks of them may take turns.
    keep: in the cache on disk, where they are made by us and take long.
    """

    basis: ClassVar[bool]

    @property
    def about(self) -> dict[str, Any]: ...

    @property
    def settings(self) -> dict[str, Any]: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def __call__(self, inputs: Inputs, progress: Progress | None = None, keep: bool = False) -> Inputs: ...

    def module(self) -> nn.Module:
        """The same as a module, for torch.export."""
        ...


@dataclass(frozen=True)
class Plain:
    """Rows as they are."""

    about: ClassVar[dict[str, Any]] = {"kind": "none"}
    settings: ClassVar[dict[str, Any]] = _NONE
    notes: ClassVar[tuple[str, ...]] = ()
    basis: ClassVar[bool] = False

    def __call__(self, inputs: Inputs, progress: Progress | None = None, keep: bool = False) -> Inputs:
        """The same rows."""
        return inputs

    def module(self) -> nn.Module:
        """Nothing."""
        return nn.Identity()


@dataclass(frozen=True)
class Units:
    """Rows of numbers, each at norm 1, and a constant."""

    about: ClassVar[dict[str, Any]] = {"kind": "rows"}
    settings: ClassVar[dict[str, Any]] = _NONE
    notes: ClassVar[tuple[str, ...]] = ()
    basis: ClassVar[bool] = False

    def __call__(self, inputs: Inputs, progress: Progress | None = None, keep: bool = False) -> Inputs:
        """See hush.models.features.unit."""
        return unit(cast(Tensor, inputs))

    def module(self) -> nn.Module:
        """The same."""
        return UnitModule()


@dataclass(frozen=True, eq=False)
class Images:
    """Scattering in a public basis (hush.models.features.front); images of two sides have one channel."""

    made: public.Front
    flat: bool
    basis: ClassVar[bool] = True

    @property
    def about(self) -> dict[str, Any]:
        """Its numbers."""
        numbers = self.made.numbers
        return {"kind": "images", "flat": self.flat, **{key: numbers[key] for key in sorted(numbers)}}

    @property
    def settings(self) -> dict[str, Any]:
        """Small images have fewer features than asked for."""
        return {"features": self.made.basis.size, "scattering_order": self.made.scattering.order}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was known beforehand."""
        beside, where = ("", "") if self.made.colours is None else (" with coarse colours beside it", " and CIFAR-10")
        return (
            f"features: scattering of order {self.made.scattering.order} in a basis from procedural images{beside}, for"
            " which no data is read; what kind of images, and the scheme's settings, were chosen on held-out clients of"
            f" Fashion-MNIST{where}: a prior that epsilon does not count",
        )

    def __call__(self, inputs: Inputs, progress: Progress | None = None, keep: bool = False) -> Inputs:
        """From the cache and into it, where they are to be kept."""
        images = cast(Tensor, inputs)
        make = self.made.features if keep else self.made
        return make(images.unsqueeze(1) if self.flat else images, progress)

    def module(self) -> nn.Module:
        """The same up to rounding."""
        return FrontModule(self.made, self.flat)


@dataclass(frozen=True, eq=False)
class Own:
    """Features by a function of the user's own, as of a pre-trained network: each row then at norm 1, and a constant.

    The function gets up to 256 raw rows and returns as many rows of numbers.
    """

    name: str
    function: Function
    basis: ClassVar[bool] = False

    @property
    def about(self) -> dict[str, Any]:
        """Its name: code is never stored."""
        return {"kind": "own", "function": self.name}

    @property
    def settings(self) -> dict[str, Any]:
        """Its name."""
        return {"features": self.name, "scattering_order": None}

    @property
    def notes(self) -> tuple[str, ...]:
        """What epsilon does not count."""
        return (
            f"features: {self.name}, public and made without the clients' data on the word of whoever runs this, each"
            " row by itself (tried on a few rows); what they were trained on, epsilon does not count",
        )

    def __call__(self, inputs: Inputs, progress: Progress | None = None, keep: bool = False) -> Inputs:
        """Piece by piece, in order."""
        rows, found = cast(Tensor, inputs), []
        if isinstance(self.function, nn.Module):
            self.function.eval()
        self._rowwise(rows[:FEW])
        for piece in torch.split(rows, PIECE):
            found.append(self._checked(piece))
            if progress is not None:
                progress(sum(map(len, found)), len(rows))
        return unit(torch.cat(found))

    def _rowwise(self, rows: Tensor) -> None:
        """Refuse a function that makes a row's features of other rows as well: those may be another client's."""
        together, alone = self._checked(rows), torch.cat([self._checked(row[None]) for row in rows])
        if together.shape != alone.shape or not torch.allclose(together, alone, atol=CLOSE * float(alone.abs().max())):
            raise Mistake(
                f"the features of {self.name} make one row of several (as a mean over a batch does), and so of several"
                " clients' data: treat each row by itself, and put a network in eval() mode"
            )

    def _checked(self, piece: Tensor) -> Tensor:
        try:
            with torch.no_grad():
                made = torch.as_tensor(self.function(piece.clone()))
        except Exception as error:
            raise Mistake(f"the features of {self.name} fail: {first_line(error)}") from error
        if made.dim() < 2 or len(made) != len(piece):
            raise Mistake(
                f"the features of {self.name} have the shape {tuple(made.shape)} for {len(piece)} rows: return one row"
                " of numbers for each"
            )
        made = made.detach().flatten(1).float().cpu()
        if not bool(made.isfinite().all()):
            raise Mistake(f"the features of {self.name} hold NaN or infinity: check the function and its inputs")
        return made

    def module(self) -> nn.Module:
        """The function and the norm; whether it can be exported, torch.export says."""
        return UnitModule(self.function)


def are_images(data: DataSet) -> bool:
    """Whether its rows are images; those of two sides have one channel."""
    return not isinstance(data.train.inputs, Sparse) and data.train.inputs.dim() in (3, 4)


def chosen(data: DataSet, features: int, order: int, own: Own | None, say: Say) -> Front:
    """What suits the rows of a set: of images so many features of this order; or the user's own."""
    rows = data.train.inputs
    if isinstance(rows, Sparse):
        if own is not None:
            raise Mistake(f"{data.name} has sparse records, which {own.name} cannot take: leave features out")
        return Plain()
    if own is not None:
        return own
    if not are_images(data):
        return Units()

    def basis(done: int, of: int) -> None:
        say(f"basis for features of {data.name}: {done} of {of} procedural images")

    shape = tuple(rows.shape[1:])
    sides = cast(tuple[int, int, int], shape if len(shape) == 3 else (1, *shape))
    return Images(public.front(sides, features, order, progress=basis), len(shape) == 2)


def made(about: dict[str, Any], local: Callable[[str], str] = str) -> Front:
    """The front that `about` describes; `local` says where a file of the user's own is now."""
    kind = about.get("kind")
    if kind == "images":
        channels, height, width = about["shape"]
        if about["version"] != public.version(channels):
            raise Mistake("the model's features are those of another version of hush: use it with that version")
        sides = (channels, height, width)
        return Images(public.front(sides, about["directions"], about["order"], about["seed"]), about["flat"])
    if kind == "own":
        if ".py:" not in about["function"]:
            raise Mistake(
                "the model's features are a function of the Python program that trained it: give it, as in"
                " hush.load(run, features=function)"
            )
        name = local(about["function"])
        return Own(about["function"], function(name))
    if kind not in ("none", "rows"):
        raise Mistake(f"the model's features are of the kind {kind!r}, which this version of hush does not know")
    return Plain() if kind == "none" else Units()
