"""Hospital records at full size: the synthetic database is generated, turned into features, and loaded again.

python benchmarks/records.py [--share S] [--out FOLDER]

Each step runs in a process of its own, so that its time and its peak memory are its own. Linux only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from machine import commit, machine

HERE = Path(__file__).resolve().parent
STEPS = {
    "generate": "patients drawn and written to Parquet",
    "features": "Parquet to sparse features, kept in the cache",
    "again": "features from the cache, with the digest of all files",
}
GOAL = {"seconds": 300, "memory, MB": 6000}  # generate and features together; each of them


def step(name: str, share: float) -> dict[str, Any]:
    """One step, in this process; what came of it."""
    from hush.data.fetch import tables
    from hush.data.records import read_schema, split
    from hush.data.records.stored import stored

    schema, _ = tables(f"premier-like:{share:g}", say=lambda line: None)
    if name == "generate":
        sizes = [file.stat().st_size for file in schema.parent.rglob("*.parquet")]
        return {"Parquet, MB": round(sum(sizes) / 1e6, 1)}
    found = stored(read_schema(schema), lambda line: None)
    if name == "again":
        return {}
    train, test = split(found)
    return {
        "rows before the rules": found.counts[0].before,
        "rows": len(found.targets),
        "hospitals": len(set(found.clients.tolist())),
        "features": found.inputs.width,
        "training rows": len(train),
        "test rows": len(test),
        "values per row": round(len(found.inputs.values) / len(found.targets), 2),
        "deaths, %": round(100 * float(found.targets.float().mean()), 3),
    }


def measured(name: str, share: float, cache: Path) -> dict[str, Any]:
    """A step in a new process: seconds, CPU seconds, peak memory."""
    command = [sys.executable, __file__, "--share", f"{share:g}", "--step", name]
    paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    start = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = running.stdout.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise SystemExit(f"step {name} failed with status {running.returncode}")
    return {
        "step": name,
        "what": STEPS[name],
        "seconds": round(time.perf_counter() - start, 1),
        "CPU seconds": round(used.ru_utime + used.ru_stime, 1),
        "memory, MB": round(used.ru_maxrss / 1024),
        "found": json.loads(said),
    }


def page(facts: dict[str, str], when: str, share: float, rows: list[dict[str, Any]]) -> str:
    """The figures for readers."""
    made = [row for row in rows if row["step"] != "again"]
    seconds, memory = sum(row["seconds"] for row in made), max(row["memory, MB"] for row in made)
    lines = ["# Hospital records, measured", "", f"`python benchmarks/records.py --share {share:g}`, {when}.", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "| step | what | seconds | CPU seconds | peak memory, MB |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [row["step"], row["what"], row["seconds"], row["CPU seconds"], row["memory, MB"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    met = "met" if seconds <= GOAL["seconds"] and memory <= GOAL["memory, MB"] else "**missed**"
    lines += [
        "",
        f"Generated and turned into features: {seconds:.0f} s, at most {memory:,} MB. Goal at full size: at most "
        f"{GOAL['seconds']} s and {GOAL['memory, MB']:,} MB. {met.capitalize() if met == 'met' else met}.",
        "",
        "| found | |",
        "|---|---|",
    ]
    lines += [f"| {name} | {value:,} |" for row in rows for name, value in row["found"].items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure the steps one after the other and write the figures."""
    parser = argparse.ArgumentParser(description="Measure the synthetic hospital records at full size.")
    parser.add_argument("--share", type=float, default=1.0, help="part of the full size (1)")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where the figures go")
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.step:
        print(json.dumps(step(chosen.step, chosen.share)))
        return 0
    facts = machine()
    when = f"{datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}, tree {commit()}"
    with tempfile.TemporaryDirectory(prefix="hush-records-") as folder:
        rows = [measured(name, chosen.share, Path(folder)) for name in STEPS]
    chosen.out.mkdir(parents=True, exist_ok=True)
    whole = {"machine": facts, "when": when, "share": chosen.share, "steps": rows}
    (chosen.out / "records.json").write_text(json.dumps(whole, indent=1) + "\n")
    (chosen.out / "records.md").write_text(page(facts, when, chosen.share, rows))
    print(page(facts, when, chosen.share, rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
