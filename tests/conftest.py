"""A small task on the bundled digits: unequal clients, some with fewer rows than a batch, some with more."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from sklearn.datasets import load_digits
from torch import nn

from hush.catalogue.values import Settings
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.models.weights import glorot
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip
from hush.parts.trainers import memory
from hush.random.seeds import PublicSeed

# A busy machine must not fail a test: no limits on seconds, and the same cases each time.
hypothesis_settings.register_profile(
    "hush", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("hush")

torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What tests measure is not for the user's own runs."""
    memory.FILE = tmp_path_factory.mktemp("cache") / "engines.json"


SIZES = (1, 2, 3, 4, 5, 5, 6, 8, 9, 11, 13, 20)
Make = Callable[[nn.Module], Task]


@pytest.fixture(scope="session")
def make() -> Make:
    """A task with this model, which gets Glorot weights: 87 digits over 12 clients, and 10 public ones."""
    found = load_digits()
    inputs = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16
    whole = Samples(inputs, torch.tensor(found.target))
    cuts = torch.tensor((0, *SIZES)).cumsum(0)
    order = torch.randperm(sum(SIZES), generator=torch.Generator().manual_seed(3))
    train, public, test = (whole.rows(torch.arange(*ends)) for ends in ((0, 87), (90, 100), (100, 200)))

    def task(model: nn.Module) -> Task:
        split = Split(order, cuts)
        # Whatever the scheme: the recommended ones are for a head on features alone.
        return Task(glorot(model, PublicSeed(0)), F.cross_entropy, train, split, test, public, featured=True)

    return task


@pytest.fixture
def task(make: Make) -> Task:
    """The small task with 910 weights."""
    return make(nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10)))


@pytest.fixture
def settings() -> Settings:
    """Settings that fit the small task: batches of 5, so that 6 of 12 clients have no more rows than that."""
    given = {"sampling": Fixed(5), "ratio": 0.1, "rate": 0.2, "steps": 3, "batch": 5, "probe": 4, "clip": Clip(0.45)}
    return Settings(**given, noise=0.8, precision=4, chunks=10)
