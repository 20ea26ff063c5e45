"""What `hush run --audit` costs: whole commands with it and without it, in turns, their seconds of the processor.

python experiments/audit/cost.py [--turns 2]

Data and features are in the cache by a first run of each, which does not count. Writes cost.csv anew.
"""

import argparse
import csv
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

RESULTS = Path(__file__).parent / "cost.csv"
RUNS = {
    "hush": ["hush"],
    "hush, secure sum": ["hush", "--secure"],
    "hush-once": ["hush-once"],
    "fl-top-dp, 20 rounds": ["fl-top-dp", "--rounds", "20"],
    "fl-sign-dp, 20 rounds": ["fl-sign-dp", "--rounds", "20"],
}


def spent(words: list[str]) -> float:
    """The seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hush", "run", *words, "--epsilon", "4", "--delta", "1e-5"]
        subprocess.run([*command, "--out", f"{folder}/run"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Every run, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2)
    turns = parser.parse_args().turns
    with RESULTS.open("w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "seconds", "audited"])
        for name, words in RUNS.items():
            spent(words)
            found = [(spent(words), spent([*words, "--audit"])) for _ in range(turns)]
            row = [name, *(f"{median(column):.2f}" for column in zip(*found, strict=True))]
            writer.writerow(row)
            print(*row, flush=True)


if __name__ == "__main__":
    main()
