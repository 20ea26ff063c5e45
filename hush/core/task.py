"""What is to be learned, who holds which data, and all that client code may touch of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch import Tensor, nn

from hush.core.memory import Kept, Members, Memory
from hush.data.samples import Samples, Split, samples
from hush.errors import Mistake
from hush.models.inputs import check, fitted
from hush.models.losses import Loss
from hush.models.measures import choice
from hush.models.measures.choice import Metrics
from hush.models.weights import Layout, precision
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed


@dataclass(frozen=True, eq=False)
class Problem:
    """What everybody knows: a model with its initial weights, its loss (a mean over a batch), public and test rows.

    `test` belongs to the server and `public` to everybody: neither is protected. `metrics` says how good outputs are:
    a kind's name or a function; if not given, it is found (hush.models.measures). `featured`: the rows are public
    features, and the model is a head for them.
    """

    model: nn.Module
    loss: Loss
    test: Samples | None = None
    public: Samples | None = None
    metrics: Metrics | None = None
    featured: bool = False

    def __post_init__(self) -> None:
        choice.check(self.metrics)
        if not any(parameter.requires_grad for parameter in self.model.parameters()):
            raise Mistake(f"the model {type(self.model).__name__} has no parameters that train: set requires_grad")
        check(self.model)
        for name in ("test", "public"):
            rows = getattr(self, name)
            if rows is not None:
                object.__setattr__(self, name, fitted(self.model, rows))

    @property
    def layout(self) -> Layout:
        """Where the model's tensors lie in the flat vector."""
        return Layout.of(self.model)


@dataclass(frozen=True, eq=False)
class Population:
    """Rows, and which client holds which: all clients in a simulation, one client at its own machine."""

    data: Samples
    split: Split

    def __post_init__(self) -> None:
        self.split.check(len(self.data))

    def __len__(self) -> int:
        return len(self.split)

    def own(self, client: int) -> "Population":
        """One client's rows in a population of their own: what is on its machine."""
        rows = self.split.rows_of(client)
        return Population(self.data.rows(rows), Split.of([range(len(rows))]))


@dataclass(frozen=True, eq=False)
class Block:
    """All that client code may touch: some clients of a simulation, or the one client of a machine.

    `places` are the clients' places in the population. Their draws and their memory have names of their own.
    """

    problem: Problem
    population: Population
    places: Members
    draws: Draws
    memory: Kept | None = None

    def __len__(self) -> int:
        return len(self.places)

    @property
    def data(self) -> Samples:
        """The rows of the population; `rows` says which are whose."""
        return self.population.data

    @cached_property
    def sizes(self) -> Tensor:
        """How many rows each client holds."""
        return self.population.split.sizes_of(self.places)

    def rows(self, place: int) -> Tensor:
        """The rows of one client of the block."""
        return self.population.split.rows_of(int(self.places[place]))

    def pick(self, places: Sequence[int]) -> "Block":
        """Some of its clients."""
        kept = None if self.memory is None else self.memory.pick(places)
        return Block(self.problem, self.population, self.places[list(places)], self.draws.pick(places), kept)


@dataclass(frozen=True, eq=False)
class Enrolled:
    """What the server of a network knows: the problem, and of each registered client the number of its records.

    `sizes` are as the clients said when they registered. Where records are protected they are public. A client has its
    own size alone, its own rows (`sample`), and how many are registered (`population`).
    """

    problem: Problem
    sizes: Tensor
    sample: Samples | None = None
    population: int | None = None
    shared: ClassVar[bool] = False

    @property
    def clients(self) -> int:
        """How many clients are registered."""
        return len(self.sizes) if self.population is None else self.population

    @property
    def layout(self) -> Layout:
        """Where the model's tensors lie in the flat vector."""
        return self.problem.layout

    @property
    def model(self) -> nn.Module:
        """The problem's."""
        return self.problem.model

    @property
    def loss(self) -> Loss:
        """The problem's."""
        return self.problem.loss

    @property
    def test(self) -> Samples | None:
        """The problem's."""
        return self.problem.test

    @property
    def metrics(self) -> Metrics | None:
        """The problem's."""
        return self.problem.metrics

    @property
    def known(self) -> tuple[tuple[Tensor, ...], tuple[Samples | None, ...]]:
        """Who takes part, and all rows that are here: what a resumed run must find again."""
        return (self.sizes,), (self.test, self.problem.public)

    @property
    def parts(self) -> dict[str, Samples | None]:
        """All rows that are here, by what they are for."""
        return {"public": self.problem.public, "test": self.test}

    @property
    def rows(self) -> Samples:
        """Rows that show what the clients' are like."""
        found = self.sample or self.problem.test or self.problem.public
        if found is None:
            raise Mistake("the server has neither test nor public rows: give some, to check the model with")
        return found


@dataclass(frozen=True, init=False, eq=False)
class Task:
    """A problem and the population that it is learned from, in one: what a simulation needs.

    Data are Samples, pairs (inputs, targets) or a torch Dataset, taken in the model's precision (integers stay, for
    embeddings); a split is a Split or one list of row numbers per client. `test` belongs to the server and `public` to
    everybody: neither is protected. `metrics`: "classification", "regression", "multi-label", "language", a function
    (outputs, targets) -> {name: number}, or OwnMetrics; found from targets, outputs and loss if not given.
    `featured`: the rows are public features, and the model is a head for them.
    """

    model: nn.Module
    loss: Loss
    train: Samples
    split: Split
    test: Samples | None = None
    public: Samples | None = None
    metrics: Metrics | None = None
    featured: bool = False

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        train: object,
        split: Split | Iterable[list[int]],
        test: object = None,
        public: object = None,
        metrics: Metrics | None = None,
        featured: bool = False,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise Mistake(f"model of type {type(model).__name__} has no weights to train: give a torch.nn.Module")
        if not callable(loss):
            raise Mistake(f"loss of type {type(loss).__name__} cannot be called: give a function (outputs, targets)")

        def taken(data: object) -> Samples:
            return fitted(model, samples(data, precision=precision(model)))

        fields = {
            "model": model,
            "loss": loss,
            "train": taken(train),
            "split": split if isinstance(split, Split) else Split.of(split),
            "test": None if test is None else taken(test),
            "public": None if public is None else taken(public),
            "metrics": metrics,
            "featured": featured,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        _ = self.problem, self.population  # which refuse what cannot be

    @cached_property
    def problem(self) -> Problem:
        """What everybody knows."""
        return Problem(self.model, self.loss, self.test, self.public, self.metrics, self.featured)

    @cached_property
    def population(self) -> Population:
        """Who holds what."""
        return Population(self.train, self.split)

    @property
    def clients(self) -> int:
        """How many clients are registered."""
        return len(self.split)

    @property
    def layout(self) -> Layout:
        """Where the model's tensors lie in the flat vector."""
        return self.problem.layout

    @property
    def sizes(self) -> Tensor:
        """How many records each client holds."""
        return self.split.sizes

    @property
    def shared(self) -> bool:
        """Whether several clients may hold a row."""
        return self.split.shared

    @property
    def known(self) -> tuple[tuple[Tensor, ...], tuple[Samples | None, ...]]:
        """Who holds what, and all rows that are here: what a resumed run must find again."""
        return (self.split.rows, self.split.starts), (self.train, self.test, self.public)

    @property
    def parts(self) -> dict[str, Samples | None]:
        """All rows that are here, by what they are for."""
        return {"train": self.train, "public": self.public, "test": self.test}

    @property
    def rows(self) -> Samples:
        """Rows that show what the clients' are like."""
        return self.train

    def block(self, clients: Members, secret: SecretSeed, memory: Memory | None = None) -> Block:
        """Some clients of a simulation: their numbers are their places, and the names of their draws and memory."""
        names = tuple(clients.tolist())
        kept = None if memory is None else Kept(memory, names)
        return Block(self.problem, self.population, clients, Draws(secret, names), kept)


Registered = Task | Enrolled  # what the server knows of its clients: all of a simulation's, or what is public of them
