"""What is to be learned: a model, a loss, and who holds which data."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from hush.data.samples import Samples, Split, samples
from hush.errors import Mistake
from hush.weights import Layout

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, init=False, eq=False)
class Task:
    """A model with its initial weights, its loss (a mean over a batch), and the clients' rows.

    Data are Samples, pairs (inputs, targets) or a torch Dataset; a split is a Split or one list of row
    numbers per client. `test` belongs to the server and `public` to everybody: neither is protected.
    """

    model: nn.Module
    loss: Loss
    train: Samples
    split: Split
    test: Samples | None = None
    public: Samples | None = None

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        train: object,
        split: Split | Iterable[list[int]],
        test: object = None,
        public: object = None,
    ) -> None:
        fields = {
            "model": model,
            "loss": loss,
            "train": samples(train),
            "split": split if isinstance(split, Split) else Split.of(split),
            "test": None if test is None else samples(test),
            "public": None if public is None else samples(public),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise Mistake(f"the model {type(model).__name__} has no parameters that train: set requires_grad")
        self.split.check(len(self.train))

    @property
    def clients(self) -> int:
        """How many clients are registered."""
        return len(self.split)

    @property
    def layout(self) -> Layout:
        """Where the model's tensors lie in the flat vector."""
        return Layout.of(self.model)
