"""The papers' figures in experiments/*/published.csv are complete, agree, and follow from the papers' formulas."""

import csv
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from hush.catalogue.clipping import PAPER_CLIP
from hush.catalogue.entries import ENTRIES, scheme
from hush.core.protocols import sent_down
from hush.models.networks import MODELS
from hush.models.weights import Layout
from hush.privacy.accountants import Release, epsilon

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
COUNTS = {
    "u-table1": 20,
    "u-table2": 20,
    "u-table6": 36,  # seven schemes at five ratios, and fl-std-dp
    "u-table7": 50,  # seven schemes at seven ratios, and fl-std-dp
    "u-table8": 72,
    "u-table9": 56,
    "u-table10": 44,
    "c-table3": 2,
    "c-table4": 2,
    "c-table6": 9,
    "c-table7": 2,
    "a-table1": 16,
}
RESULTS = ("u-table8", "u-table9", "u-table10", "c-table6", "c-table7", "a-table1")
IMAGE, MEDICAL = ("u-table1", "u-table8"), ("u-table2", "u-table9", "u-table10")


class Setting(NamedTuple):
    """What a table's figures rest on: the network's inputs, C, sigma and P (U Table 5, C Table 5)."""

    model: str
    shape: tuple[int, ...]
    outputs: int
    rate: Fraction
    noise: float = 1.0
    chunks: int = 1


IMAGES = Setting("cnn", (1, 28, 28), 10, Fraction(1, 60), 1.54, 200)
PATIENTS = Setting("mlp", (7280,), 1, Fraction(100, 5010), 1.49, 100)
HOSPITALS = Setting("mlp", (24428,), 1, Fraction(3, 314))
SETTINGS = dict.fromkeys(IMAGE, IMAGES) | dict.fromkeys(MEDICAL, PATIENTS)


def rows(*tables):
    files = [EXPERIMENTS / name / "published.csv" for name in ("constrained", "hospitals", "two-bit")]
    found = [row for file in files for row in csv.DictReader(file.read_text().splitlines())]
    return [row for row in found if not tables or row["table"] in tables]


@cache
def layout(setting):
    return Layout.of(MODELS[setting.model](torch.Size(setting.shape), setting.outputs))


@cache
def travels(setting, name, ratio):
    """The bytes that a client sends and gets in one round, as the scheme itself says."""
    given = {"noise": 1.0, "clip": 1.0} if name.endswith("-dp") else {}
    given |= {"chunks": setting.chunks} if name.startswith("fl-cs") else {}
    found = scheme(name, ratio=ratio, **given)
    count = found.coordinates.count(layout(setting))
    up = found.specs(count)[-1]
    down = torch.zeros(layout(setting).parameters)[sent_down(found.coordinates, torch.arange(count))]
    return {"up": up.form.length(up.size), "down": found.downlink.form.length(down.numel())}


@cache
def spent(setting, rounds):
    return epsilon([Release(setting.noise, float(setting.rate), rounds)], 1e-5, "moments")


def test_every_row_is_there_once():
    found = rows()
    assert Counter(row["table"] for row in found) == COUNTS
    assert COUNTS["u-table9"] + COUNTS["u-table10"] == 100
    assert len(rows(*RESULTS)) == 199
    assert max(Counter((row["table"], row["row"]) for row in found).values()) == 1


def test_a_row_is_named_after_its_scheme_and_what_varies():
    for row in rows():
        if row["table"] in ("c-table3", "c-table4"):
            continue
        assert row["scheme"] in ENTRIES
        name, _, varied = row["row"].partition("@")
        assert name == row["scheme"]
        if row["table"].startswith("u"):
            assert Fraction(row["ratio"]) == (Fraction(varied.rstrip("%")) / 100 if varied else 1)
        else:
            assert varied == (row["data"] if row["table"] == "a-table1" else row["epsilon"].replace("none", ""))


@pytest.mark.parametrize(("short", "whole"), [("u-table1", IMAGE[1:]), ("u-table2", MEDICAL[1:])])
def test_the_summary_equals_the_whole_table_cell_by_cell(short, whole):
    found = {row["row"]: row | {"table": short} for row in rows(*whole)}
    assert all(found[row["row"]] == row for row in rows(short))


def test_only_what_the_paper_says_failed_is_empty():
    """U D.1: these three "fail to improve their model accuracy". A dash is empty, "N/A" is none."""
    whole, failed = [], {}
    for row in rows(*IMAGE, *MEDICAL):
        if row["round"]:
            whole.append(row)
        else:
            failed[row["table"], row["row"]] = {key: value for key, value in list(row.items())[4:] if value}
    assert failed == {
        ("u-table8", "fl-bas-3-dp@0.1%"): {},
        ("u-table9", "fl-cs@0.01%"): {"epsilon": "none"},
        ("u-table9", "fl-cs-dp@0.01%"): {},
    }
    for row in whole:
        metrics = ("accuracy",) if row["table"] in IMAGE else ("balanced", "auroc")
        assert [key for key in list(row)[4:] if row[key]] == [*metrics, "round", "down_kB", "up_kB", "epsilon"]
        assert (row["epsilon"] != "none") == ENTRIES[row["scheme"]].private


@pytest.mark.parametrize(
    ("table", "data"),
    [("u-table6", "fashion-mnist"), ("u-table7", "premier-virtual"), ("u-table7", "diabetes130-virtual")],
)
def test_the_bounds_are_those_of_clip_paper(table, data):
    found = {(row["scheme"], float(row["ratio"])): float(row["clip"]) for row in rows(table)}
    assert found == {(name, ratio): s for name, bounds in PAPER_CLIP[data].items() for ratio, s in bounds.items()}


def test_every_epsilon_is_the_moments_accountant_s():
    """Rounded to two decimals; 1 is 1.00."""
    pairs = [row for row in rows(*IMAGE, *MEDICAL) if row["epsilon"] not in ("", "none")]
    assert len(pairs) == 104
    for row in pairs:
        assert round(spent(SETTINGS[row["table"]], int(row["round"])), 2) == float(row["epsilon"]), row


def test_every_cost_is_what_travels():
    """4 K Round C bytes, K = floor(r n), or n where all goes down, in kB of 1,000 bytes.

    Rounded to two decimals, none cut; of some the paper leaves out zeros at the end (107, 585.5).
    """
    assert layout(IMAGES).parameters == 1_663_370
    assert layout(PATIENTS).parameters == 1_496_601
    figures = [(row, way) for row in rows(*IMAGE, *MEDICAL) for way in ("up", "down") if row[f"{way}_kB"]]
    assert len(figures) == 418
    for row, way in figures:
        setting = SETTINGS[row["table"]]
        sent = travels(setting, row["scheme"], float(row["ratio"]))[way] * int(row["round"]) * setting.rate
        assert round(sent / 1000, 2) == Fraction(row[f"{way}_kB"]), (row, way)


def test_what_hospitals_send():
    """C T_cl model_size bits with signs, 32 times as much without, in MB rounded to two decimals; -dp sends as much."""
    assert layout(HOSPITALS).parameters == 4_926_201
    for row in rows("c-table7"):
        for name in (row["scheme"], f"{row['scheme']}-dp"):
            sent = travels(HOSPITALS, name, 1.0)["up"] * 300 * HOSPITALS.rate
            assert round(sent / 10**6, 2) == Fraction(row["up_MB"])


def test_the_hospitals_records_add_up():
    records, sizes = ({row["row"]: row for row in rows(table)} for table in ("c-table3", "c-table4"))
    for part, row in records.items():
        assert int(row["positive"]) + int(row["negative"]) == int(row["total"])
        assert round(Fraction(int(row["total"]), 314), 2) == Fraction(sizes[part]["mean"])
