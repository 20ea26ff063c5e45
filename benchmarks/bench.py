"""hush against its peers and against itself, in one run: builds the environments, measures in turns, writes the tables.

python benchmarks/bench.py [--only NAME ...] [--turns N] [--against COMMIT] [--kernels avx2] [--out FOLDER]
"""

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import environments
import stored
import trees
import turns
from claims import claims, final
from contenders import ONCE, SUITES, Contender, paired
from machine import KERNELS, commit, here, machine


def measured(
    name: str, contenders: list[Contender], chosen: argparse.Namespace, data: Path, before: Path | None
) -> list[dict[str, Any]]:
    """A suite's results; where each contender has one turn in a fresh process, another process repeats it."""
    if name not in ONCE:
        return turns.run(name, contenders, chosen.turns, data, chosen.repeats, before)
    results = []
    for one in contenders:
        attempts = turns.run(name, [one], 1, data, 0, before)
        while not final(attempts[-1]) and len(attempts) <= chosen.repeats:
            attempts += turns.run(name, [one], 1, data, 0, before)
        results.append(
            min(attempts, key=lambda result: max((turn.get("others", 0.0) for turn in result["turns"]), default=0.0))
        )
    return results


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Measure hush against its peers and against itself, in one run.")
    parser.add_argument("--only", nargs="+", choices=list(SUITES), default=list(SUITES), metavar="NAME",
                        help=f"suites to run: {', '.join(SUITES)} (all)")  # fmt: skip
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="turns of each contender (5)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N",
                        help="so often is a turn repeated that other processes disturbed (3)")  # fmt: skip
    parser.add_argument("--against", metavar="COMMIT", help="hush of this commit takes its turns, too")
    parser.add_argument("--kernels", choices=list(KERNELS), help="hold all libraries to these instructions")
    parser.add_argument("--out", type=Path, default=environments.HERE / "results", help="where the tables go")
    chosen = parser.parse_args()
    for name, least in (("turns", 1), ("repeats", 0)):
        if getattr(chosen, name) < least:
            parser.error(f"--{name} {getattr(chosen, name)} must be at least {least}")
    return chosen


def main() -> int:
    """Run the suites; status 1 if a contender failed."""
    chosen = options()
    os.environ |= KERNELS.get(chosen.kernels, {})
    against = trees.resolved(chosen.against) if chosen.against else None
    suites = {name: paired(name) if against else SUITES[name] for name in chosen.only}
    for name in sorted({one.environment for suite in suites.values() for one in suite} | {"hush"}):
        try:
            environments.ready(name)
        except subprocess.CalledProcessError as error:
            print(f"environment {name} could not be built, its contenders will fail: {error}", flush=True)
    data, before = environments.data(), trees.unpacked(against) if against else None
    if any(one.worker == "recommended_" for suite in suites.values() for one in suite):
        for tree in filter(None, (before, environments.ROOT)):
            environments.features(tree)
    errors: list[dict[str, Any]] = []
    for name, contenders in suites.items():
        facts, when = machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        run: dict[str, Any] = {"when": when, "tree": commit(), "against": against, "turns": chosen.turns}
        run |= {"load": facts.pop("load before the run")}
        run["results"] = measured(name, contenders, chosen, data, before)
        stored.keep(chosen.out, here(), facts, name, run)
        errors += [one for one in run["results"] if "error" in one]
        for claim in claims({name: run["results"]}):
            sign = "at least" if claim.more else "at most"
            print(f"{claim.text}: {claim.value:.3g} {claim.unit}, {sign} {claim.goal:.3g}: {claim.verdict}", flush=True)
    print(f"written: {chosen.out / 'README.md'}, {chosen.out / f'{here()}.json'}")
    for one in errors:
        print(f"failed: {one['key']}: {one['error']}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
