"""hush against its peers, in one run: builds the environments, measures in turns, writes the tables.

python benchmarks/bench.py [--only NAME ...] [--rounds K] [--out FOLDER]
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import environments
import turns
from claims import Results
from contenders import ONCE, SUITES
from page import page


def machine() -> dict[str, str]:
    """The machine in words."""
    facts = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        caches.append(f"L{level} {kind.lower()} {size}")
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    simd = [flag for flag in ("avx2", "fma", "avx512f", "amx_tile") if flag in facts.get("flags", "").split()]
    return {
        "CPU": f"{facts.get('model name', platform.machine())} ({', '.join(simd)})",
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} usable by the bench",
        "caches, of the first core": ", ".join(caches) or "unknown",
        "memory": f"{int(memory.split()[1]) / 2**20:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before the run": f"{os.getloadavg()[0]:.2f}",
    }


def commit() -> str:
    """The tree's commit, with a plus if it was changed since; nothing outside a checkout."""
    ask = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
    found = subprocess.run(ask, cwd=environments.ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def save(results: Results, facts: dict[str, str], out: Path, when: str) -> None:
    """What is known so far: numbers for programs, a page for readers, the profile as it was printed."""
    out.mkdir(parents=True, exist_ok=True)
    shown = json.loads(json.dumps(results))
    for one in shown.get("profile", []):
        for turn in one["turns"]:
            (out / "profile.txt").write_text(turn.pop("profile") + "\n")
    (out / "results.json").write_text(json.dumps({"machine": facts, "when": when, "suites": shown}, indent=1) + "\n")
    (out / "README.md").write_text(page(results, facts, when))


def main() -> int:
    """Run the suites; status 1 if a contender failed."""
    parser = argparse.ArgumentParser(description="Measure hush against its peers, in one run.")
    parser.add_argument("--only", nargs="+", choices=list(SUITES), default=list(SUITES), metavar="NAME",
                        help=f"suites to run: {', '.join(SUITES)} (all)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, metavar="K", help="turns of each contender (5)")
    parser.add_argument("--out", type=Path, default=environments.HERE / "results", help="where the tables go")
    chosen = parser.parse_args()
    if chosen.rounds < 1:
        parser.error(f"--rounds {chosen.rounds} must be at least 1")
    facts = machine()
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    when = ", ".join(part for part in (moment, f"tree {commit()}", f"{chosen.rounds} turns") if part)
    wanted = {one.environment for name in chosen.only for one in SUITES[name]} | {"hush"}
    for name in sorted(wanted):
        try:
            environments.ready(name)
        except subprocess.CalledProcessError as error:
            print(f"environment {name} could not be built, its contenders will fail: {error}", flush=True)
    data = environments.data()
    results: dict[str, list[dict[str, Any]]] = {}
    for name in chosen.only:
        together = [[one] for one in SUITES[name]] if name in ONCE else [SUITES[name]]
        number = 1 if name in ONCE else chosen.rounds
        results[name] = [result for part in together for result in turns.run(name, part, number, data)]
        save(results, facts, chosen.out, when)
    errors = [one for rows in results.values() for one in rows if "error" in one]
    print(f"written: {chosen.out / 'README.md'}, {chosen.out / 'results.json'}")
    for one in errors:
        print(f"failed: {one['key']}: {one['error']}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
