"""The committed table of experiments/audit: it shows what it is there for, and its script still runs."""

import csv
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "audit"
SCRIPT = runpy.run_path(str(FOLDER / "table.py"))
with (FOLDER / "results.csv").open() as file:
    ROWS = list(csv.DictReader(file))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['clip']}-{row['noise']}-{row['size']}-{row['floor']}")
def test_bounds_are_between_half_and_all_of_what_is_accounted(row):
    assert row["trials"] == "1000000"
    assert float(row["accounted"]) / 2 < float(row["bound"]) < float(row["accounted"]) < float(row["bound_halved"])
    text = (FOLDER / "README.md").read_text()
    assert f"| {row['clip']} | {row['noise']} | {row['size']} | {row['floor']} | {row['accounted']} |" in text
    assert f"| {row['accounted']} | {row['bound']} | {row['ratio']} | {row['bound_halved']} |" in text


def test_the_script_has_the_same_cases_and_accounts_the_same():
    cases = [(type(clip).__name__, noise, str(size), str(floor)) for clip, noise, size, floor in SCRIPT["CASES"]]
    assert cases == [(row["clip"], row["noise"], row["size"], row["floor"]) for row in ROWS]
    for place in (0, 7, 9, 11):
        found = SCRIPT["line"](SCRIPT["CASES"][place], 200)
        assert list(found) == list(ROWS[place])
        assert str(found["accounted"]) == ROWS[place]["accounted"]
