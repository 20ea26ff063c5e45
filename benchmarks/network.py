"""A federation over a network on this machine: seconds per phase and round, CPU, memory and bytes on the socket.

    python benchmarks/network.py [--quick] [--sites N ...] [--size N ...] [--flower N ...] [--out FOLDER]

hush's own engine stands beside bare gRPC with mutual TLS as the floor (bare.py): the same federation sends its rounds
over one and the other in turns, so that only the transport differs. Flower is the peer (supernodes.py): one message
round trip of as many numbers, in turns with both. A case that the machine has no memory for is left out and named.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import environments
import parties
import supernodes
from machine import commit, machine
from network_page import page
from parties import Federation

Row = dict[str, Any]
SMALL, LARGE = 8_316, 1_663_370
# (692 + 1) * 12 weights of softmax regression, and the papers' network for images.
TASKS = {SMALL: ("linear", (692,), 12), LARGE: ("cnn", (1, 28, 28), 10)}
TRANSPORTS = ("hush", "bare gRPC")
PROCESSES = 10  # of sites, at most: a site each up to so many, then several sites in each
SCARCE = 10**8  # numbers of all sites from which on memory that was freed goes back at once
IDLE = 2.0  # seconds


def tables(sites: int, size: int, secure: bool) -> Row:
    """The configuration of a case: all weights travel both ways, one step on four rows."""
    found: Row = {
        "data": {},
        "model": {"name": TASKS[size][0]},
        "scheme": {"name": "fl-std-dp", "noise": 1.0, "clip": 0.5},
        "train": {"steps": 1, "batch": 4},
        "sampling": {"kind": "fixed", "cohort": sites},
        "run": {"rounds": 10_000, "seed": 7, "engine": "lockstep"},
    }
    return found | ({"secure": {"mode": "full"}} if secure else {})


def turn(running: Federation, number: int) -> Row:
    """A round over each transport; who is first changes."""
    return {name: running.round(name) for name in (TRANSPORTS if number % 2 else TRANSPORTS[::-1])}


def case(sites: int, size: int, secure: bool, args: argparse.Namespace) -> Row:
    """One federation, its turns, and Flower's beside it where that is asked for."""
    found: Row = {"sites": sites, "size": size, "secure": secure, "processes": min(sites, PROCESSES)}
    _, shape, classes = TASKS[size]
    with tempfile.TemporaryDirectory(prefix="hush-network-") as name:
        folder, began = Path(name), time.perf_counter()
        wanted, frugal = tables(sites, size, secure), sites * size > SCARCE
        given = parties.Given(sites, wanted, shape, classes, PROCESSES, frugal)
        with parties.federation(folder, given) as running:
            found["numbers"], found["ready"] = running.numbers, time.perf_counter() - began
            turn(running, 0)  # the first plans carry no weights
            found["turns"], end = [], time.perf_counter() + args.seconds
            least = 3 if frugal else args.least
            while len(found["turns"]) < least or (len(found["turns"]) < args.most and time.perf_counter() < end):
                found["turns"].append(turn(running, len(found["turns"])))
            found["idle"] = running.ask({"idle": IDLE})["cpu"]
            if sites in args.flower and not secure:
                found |= beside(folder, running, args)
    return found


def beside(folder: Path, running: Federation, args: argparse.Namespace) -> Row:
    """Flower's message round trips in turns with rounds; or why there are none."""
    sites, turns = len(list((folder / "kits").iterdir())) - 1, []
    try:
        with supernodes.flower(folder / "flower", folder / "kits", sites, running.numbers, args.poll) as peer:
            peer.phase()
            for number in range(args.phases):
                turns.append({"Flower": peer.phase()} | turn(running, number))
    except (supernodes.Failed, subprocess.SubprocessError) as why:
        return {"beside": turns, "failed": f"Flower: {why}"}
    return {"beside": turns}


def shown(found: Row) -> str:
    """A case in a line."""
    name = f"{found['sites']:>3} sites, {found['size']:>9,} numbers, {'secure' if found['secure'] else 'plain '}"
    if "turns" not in found:
        return f"{name}: left out, {found['failed']}"
    last = found["turns"][-1]
    rounds = ", ".join(f"{way} {1e3 * last[way]['seconds']:,.0f} ms a round" for way in TRANSPORTS)
    flower = "".join(f", Flower {one['Flower']['seconds']:.1f} s a phase" for one in found.get("beside", [])[-1:])
    failed = f"; {found['failed']}" if "failed" in found else ""
    return f"{name}: {len(found['turns'])} turns, last: {rounds}{flower}{failed}"


def save(results: Row, out: Path) -> None:
    """What is known so far: numbers for programs, a page for readers."""
    out.mkdir(parents=True, exist_ok=True)
    short = json.loads(json.dumps(results), parse_float=lambda text: float(f"{float(text):.5g}"))
    (out / "network.json").write_text(json.dumps(short) + "\n")
    (out / "network.md").write_text(page(short))


def main() -> int:
    """Run the cases; status 1 if one failed."""
    parser = argparse.ArgumentParser(description="Measure a federation over a network on this machine.")
    parser.add_argument("--quick", action="store_true", help="3 sites, few turns: a minute or two")
    parser.add_argument("--sites", type=int, nargs="+", help="numbers of sites (3 10 30 100)")
    parser.add_argument("--size", type=int, nargs="+", choices=list(TASKS), default=list(TASKS), help="numbers sent")
    parser.add_argument(
        "--flower", type=int, nargs="*", help="of these, the ones beside Flower (3 10; none to leave out)"
    )
    parser.add_argument(
        "--poll", type=float, help="Flower's SuperExec looks for tasks every so many seconds (its own: 1)"
    )
    parser.add_argument("--out", type=Path, default=environments.HERE / "results", help="where the figures go")
    args = parser.parse_args()
    args.sites = args.sites or ([3] if args.quick else [3, 10, 30, 100])
    args.flower = args.flower if args.flower is not None else ([3] if args.quick else [3, 10])
    args.least, args.most, args.seconds, args.phases = (5, 10, 3.0, 2) if args.quick else (5, 30, 12.0, 3)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all processes end with this one
    os.environ["GRPC_VERBOSITY"] = "NONE"
    os.environ["PYTHONPATH"] = f"{environments.HERE}{os.pathsep}{environments.ROOT}"  # of the processes to come
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    results: Row = {
        "when": f"{moment}, tree {commit()}",
        "machine": machine(),
        "quick": args.quick,
        "poll": args.poll,
        "cases": [],
    }
    if set(args.flower) & set(args.sites):
        try:
            environments.ready("flower")
        except subprocess.CalledProcessError as error:
            print(f"Flower's environment could not be built, it is left out: {error}", flush=True)
            args.flower = []
    for size in args.size:
        for sites in args.sites:
            for secure in (False, True):
                try:
                    found = case(sites, size, secure, args)
                except parties.Failed as why:
                    found = {"sites": sites, "size": size, "secure": secure, "failed": str(why)}
                results["cases"].append(found)
                print(shown(found), flush=True)
                save(results, args.out)
    print(page(results))
    return 1 if any("failed" in one for one in results["cases"]) else 0


if __name__ == "__main__":
    sys.exit(main())
