"""The committed results of experiments/attacks: tables are those of the results, and the scripts still run."""

import csv
import runpy
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch

import hush
from hush.data.samples import Samples

FOLDER = Path(__file__).parents[2] / "experiments" / "attacks"
PROPERTIES, MEMBERSHIP, COLLECT = (
    runpy.run_path(str(FOLDER / f"{name}.py")) for name in ("properties", "membership", "collect")
)


def rows(name):
    with (FOLDER / name).open() as file:
        return list(csv.DictReader(file))


def test_the_tables_are_those_of_the_results():
    text = (FOLDER / "README.md").read_text()
    assert COLLECT["filled"](text) == text


def test_every_attack_has_five_repetitions_on_four_properties():
    cases = COLLECT["grouped"]()
    assert len(cases) == 4
    for attacks in cases.values():
        assert list(attacks) == list(next(iter(cases.values())))
        for found in attacks.values():
            assert [row["repetition"] for row in found] == list("01234")


def mean(found, key):
    return fmean(float(row[key]) for row in found)


def test_what_the_text_says_of_signs():
    for (data, _), attacks in COLLECT["grouped"]().items():
        adapted = mean(attacks["fl-sign: upload"], "auc")
        naive = attacks["fl-sign: upload, by a classifier of plain updates"]
        plain = mean(attacks["fl-standard: upload"], "auc")
        assert abs(mean(naive, "accuracy") - 0.5) < 0.03
        assert plain > 0.75
        assert adapted > (0.9 if data == "fashion-mnist" else 0.5 + 4 * 0.011)


def test_membership_stays_below_what_epsilon_allows():
    found = rows("membership.csv")
    for row in found:
        if row["epsilon"] != "none":
            allowed, n = COLLECT["bound"](float(row["epsilon"]), 0.01), int(row["outside"])
            error = np.sqrt(allowed * (1 - allowed) / n) + np.exp(float(row["epsilon"])) * np.sqrt(0.01 / n)
            assert float(row["ratio_at_0.01"]) < min(1.0, allowed + 3 * error)
    (open_,) = [row for row in found if row["scheme"] == "fl-std" and row["unit"] == "client"]
    assert float(open_["ratio_auc"]) > 0.7


@pytest.fixture(scope="module")
def case():
    """Made-up rows in the place of the data: three of ten columns say whether a row has the trait."""
    rng = hush.PublicSeed(0).generator("rows")
    trait, labels = rng.random(1600) < 0.5, torch.from_numpy((rng.random(1600) < 0.9).astype(np.int64))
    inputs = rng.random((1600, 10)).astype(np.float32)
    inputs[trait, :3] += 1
    x = torch.from_numpy(inputs)
    deal = PROPERTIES["Deal"](clients=24, size=10, present=10, others=12, matched=True)
    return PROPERTIES["Case"]("made-up", "all rows have it", deal, trait, Samples(x, labels), x, False)


def test_the_script_of_properties_runs_and_has_the_same_attacks(case):
    names = []
    for attack, featured in PROPERTIES["attacks"](case):
        (row,) = PROPERTIES["lines"](case, attack, featured, 1)
        names.append(COLLECT["attacked"]({key: str(value) for key, value in row.items()}))
        assert list(row) == list(rows("properties.csv")[0])
        if names[-1] in ("fl-standard: upload", "fl-sign: upload"):
            assert row["auc"] > 0.9
    assert names == list(next(iter(COLLECT["grouped"]().values())))


def test_the_script_of_membership_runs(case):
    layers = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    split = [list(range(4 * k, 4 * k + 4)) for k in range(10)]

    def task(featured):
        few = (case.rows.inputs[:40], case.rows.targets[:40])
        return hush.Task(layers, torch.nn.functional.cross_entropy, few, split, few, few)

    found, curves = MEMBERSHIP["judged"](replace(MEMBERSHIP["CASES"][1], rounds=2), 6, task)
    assert [list(row) for row in found] == [list(rows("membership.csv")[0])] * 2
    assert list(curves[0]) == list(rows("membership-curves.csv")[0])
    names = [
        (one.scheme, str(one.epsilon or "none"), unit) for one in MEMBERSHIP["CASES"] for unit in ("record", "client")
    ]
    assert names == [(row["scheme"], row["epsilon"], row["unit"]) for row in rows("membership.csv")]


def test_figures_are_drawn(tmp_path):
    for name in ("draw_properties", "draw_membership"):
        COLLECT[name](tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
