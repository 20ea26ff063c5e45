"""How quickly the command line answers: CPU time of three commands in this tree and in another one, and the ratios.

python benchmarks/answers.py --before PATH    # a tree of hush, say of `git worktree add PATH 147b23a`

Each command runs in a fresh interpreter and an empty folder, in turns for both trees, `--times` times; the least CPU
time (user and system, all threads) counts, since what else the machine does only adds to it. Nothing is written but
with --out.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = {  # and what part of the time before they may take
    "hush --help": 0.35,
    "hush privacy noise --epsilon 1 --rate 1/60 --rounds 200 --delta 1e-5": 1 / 3,
    "hush run fl-top-dp --data digits --ratio 0.02 --clip 1 --rate 0.5 --cohort 60 --epsilon 3 --delta 1e-3"
    " --rounds 20": 0.5,
}
MAIN = "from hush.cli import main; main()"


def seconds(tree: Path, command: str) -> float:
    """CPU seconds of one call, with the interpreter's own start."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *shlex.split(command)[1:]],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(tree.resolve())},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        told = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
    if process.returncode:
        raise SystemExit(f"{tree}: {command} failed:\n{told.decode()}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, print the table, and end with status 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the other tree; without it only this one is measured")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a JSON file for what was measured")
    given = parser.parse_args()
    trees = {"before": given.before, "after": Path(__file__).parents[1]}
    trees = {name: tree for name, tree in trees.items() if tree is not None}
    found, missed = [], False
    print("| command | " + " | ".join(f"{name}, CPU s" for name in trees) + " | ratio | goal |")
    print("|---" * (len(trees) + 3) + "|")
    for command, goal in COMMANDS.items():
        turns = [{name: seconds(tree, command) for name, tree in trees.items()} for _ in range(given.times)]
        least = {name: min(turn[name] for turn in turns) for name in trees}
        ratio = least["after"] / least["before"] if "before" in least else None
        missed |= ratio is not None and ratio > goal
        found.append({"command": command, **least, "ratio": ratio, "goal": goal, "turns": turns})
        cells = [f"`{command}`", *(f"{value:.2f}" for value in least.values())]
        print(f"| {' | '.join(cells)} | {'-' if ratio is None else f'{ratio:.2f}'} | {goal:.2f} |", flush=True)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(missed)


if __name__ == "__main__":
    main()
