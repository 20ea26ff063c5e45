"""Rows dealt to clients that hold a property and clients that do not: the attacker's, and those it attacks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hush.core.task import Population
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.random.seeds import PublicSeed

Bools = npt.NDArray[np.bool_]
Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Clients of which it is known whether each `holds` the property; those behind them are the `others` of a cohort.

    `rows` are the rows of the whole data that the population was made of: its own, which no other group has.
    """

    population: Population
    holds: Bools
    rows: Index

    @property
    def others(self) -> int:
        """How many clients there are to fill a cohort with."""
        return len(self.population) - len(self.holds)


@dataclass(frozen=True)
class Deal:
    """How rows become clients.

    clients  of each group, half of them with the property
    size     rows of a client
    present  rows with the trait at a client that holds the property; `absent`: at one that does not
    others   clients more, with any rows, to fill cohorts with
    matched  rows without the trait that stand where another client has rows with it have labels of such rows: what
             is inferred is not how often a label comes. Not for a trait that is a label of its own
    """

    clients: int = 400
    size: int = 10
    present: int = 10
    absent: int = 0
    others: int = 0
    matched: bool = False

    def __post_init__(self) -> None:
        if self.clients < 4 or self.size < 1 or self.others < 0:
            raise Mistake(
                f"clients={self.clients}, size={self.size}, others={self.others}: deal 4 clients of a row at least"
            )
        if not 0 <= self.absent <= self.size or not 0 <= self.present <= self.size or self.absent == self.present:
            raise Mistake(
                f"present={self.present} and absent={self.absent} must differ and be from 0 to size={self.size}: rows"
                " with the trait"
            )

    def groups(self, data: Samples, trait: Bools, seed: int = 0) -> tuple[Group, Group]:
        """The attacker's group, and the one it attacks: the rows are cut in two halves, and each has one of them."""
        if trait.shape != (len(data),):
            raise Mistake(f"trait has the shape {trait.shape} and must say it of each of the {len(data)} rows")
        if trait.all() or not trait.any():
            raise Mistake("all rows have the trait, or none has: there is nothing to infer")
        rng = PublicSeed(seed).generator("property inference", "deal")
        halves = np.array_split(rng.permutation(len(data)), 2)
        first, second = (self._group(data, trait, half, rng) for half in halves)
        return first, second

    def _group(self, data: Samples, trait: Bools, rows: Index, rng: np.random.Generator) -> Group:
        own = data.rows(torch.from_numpy(rows))
        beside, left = np.split(np.arange(len(rows)), [min(len(rows), self.others * self.size)])
        labels = own.targets.numpy().reshape(len(rows), -1)[:, 0] if self.matched else np.zeros(len(rows), np.int64)
        mine, slots = trait[rows], max(self.present, self.absent)
        piles = _Piles(left, labels, mine)
        holds = rng.permutation(self.clients) < self.clients // 2

        def client(number: int) -> Index:
            """Slots for rows with the trait, so many of which have it, and the rest."""
            wanted = [*rng.choice(labels[mine], slots), *rng.choice(labels[~mine], self.size - slots)]
            return np.array([piles.take(label, place < number) for place, label in enumerate(wanted)], np.int64)

        split = [client(self.present if one else self.absent) for one in holds]
        split += list(beside.reshape(self.others, self.size)) if self.others else []
        return Group(Population(own, Split.of(split)), holds, rows)


class _Piles:
    """Rows that are not dealt yet, by label and trait."""

    def __init__(self, left: Index, labels: npt.NDArray[Any], trait: Bools) -> None:
        self._rows: dict[tuple[Any, bool], list[int]] = {}
        for row in left.tolist():
            self._rows.setdefault((labels[row].item(), bool(trait[row])), []).append(row)

    def take(self, label: Any, trait: bool) -> int:
        """One of them."""
        pile = self._rows.get((label.item(), trait))
        if not pile:
            words = "with" if trait else "without"
            raise Mistake(f"there are too few rows {words} the trait of label {label}: deal fewer or smaller clients")
        return pile.pop()
