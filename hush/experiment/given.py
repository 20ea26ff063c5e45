"""What a Python program hands over as objects, where a configuration has names."""

from dataclasses import dataclass

from torch import nn

from hush.data.registry import DataSet
from hush.data.samples import Samples, Split, samples
from hush.errors import Mistake
from hush.experiment.fronts import Own
from hush.models.losses import Loss
from hush.models.measures.choice import Metrics


@dataclass(frozen=True, eq=False)
class Given:
    """Each in place of what the configuration names, where it is there."""

    data: DataSet | None = None
    model: nn.Module | None = None
    loss: Loss | None = None
    split: Split | None = None
    features: Own | None = None
    metrics: Metrics | None = None


def data_set(found: object, name: str) -> DataSet:
    """(train, test) or (train, test, public), each (inputs, targets) or a Dataset, as a set; one stays as it is."""
    if isinstance(found, DataSet):
        return found
    if not isinstance(found, tuple | list) or len(found) not in (2, 3):
        raise Mistake(f"{name} must return (train, test) or (train, test, public), each (inputs, targets) or a Dataset")
    return of_parts(name, *(samples(part) for part in found))


def of_parts(name: str, train: Samples, test: Samples, public: Samples | None = None) -> DataSet:
    """A set of these rows; whole targets are classes."""
    parts = [part for part in (train, test, public) if part is not None]
    classes = 1 if train.targets.is_floating_point() else int(max(part.targets.max() for part in parts)) + 1
    return DataSet(name, train, test, classes, source=name, digest="none known", public=public)
