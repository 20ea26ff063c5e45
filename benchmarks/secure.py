"""One secure sum: CPU time of a client and of the server, and the bytes of each phase.

    python benchmarks/secure.py [--clients N] [--size N ...] [--bits B] [--dropout R] [--corrupt R] [--out FILE]

All clients and the server run in turn on one core. A client's time is the median over the clients, of the server's the
whole round. Without losses, and with `dropout` of the clients lost after they shared their secrets, which is the worst
case: the server has to rebuild the masks of each with all its neighbours. The sum is compared with the plain one. The
two-server sum comes last.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from bench import machine

from hush.secure import Client, Identity, Server, Terms, binding, twoserver
from hush.secure.driver import answer
from hush.secure.messages import PHASES, Phase
from hush.secure.twoserver import Half, HalfServer

Numbers = dict[int, npt.NDArray[np.int16]]


def timed(call: Callable[..., Any], *args: object) -> tuple[Any, float]:
    """What a call gives, and its CPU seconds."""
    start = time.process_time()
    found = call(*args)
    return found, time.process_time() - start


def agree(people: dict[int, Identity], size: int, args: argparse.Namespace, round: int) -> Terms:
    """With the graph that these rates ask for."""
    cohort = tuple((name, identity.public) for name, identity in people.items())
    rates = {"dropout": args.dropout, "corrupt": args.corrupt}
    return Terms.choose("benchmark", round, cohort, args.bits, size, binding(b"benchmark"), **rates)


def graph_sum(terms: Terms, people: dict[int, Identity], numbers: Numbers, lost: set[int]) -> dict[str, Any]:
    """The whole protocol; who is lost shares its secrets and then is gone."""
    (server, spent), client_time = timed(Server, terms), {phase: [] for phase in PHASES}
    clients = {name: Client(people[name], terms) for name in people}
    asked = dict.fromkeys(people, b"")
    for phase in PHASES:
        for name, data in asked.items():
            if phase < Phase.MASK or name not in lost:
                said, seconds = timed(answer, clients[name], phase, data, numbers[name])
                client_time[phase].append(seconds)
                spent += timed(server.take, name, said)[1]
        if phase is not Phase.UNMASK:
            asked, seconds = timed(server.advance)
            spent += seconds
    opened, seconds = timed(server.finish)
    _check(terms, numbers, opened.residues, opened.survivors)
    medians = {phase.word: statistics.median(times) for phase, times in client_time.items()}
    return {
        "lost": len(lost),
        "client": medians | {"all": sum(medians.values())},
        "server": spent + seconds,
        "bytes": server.tally.summary(),
    }


def two_sums(terms: Terms, people: dict[int, Identity], numbers: Numbers) -> dict[str, Any]:
    """Two servers, nobody lost; the servers' time is that of both."""
    servers, spent, times, sent = {half: HalfServer(terms, half) for half in Half}, 0.0, [], 0
    for name in people:
        said, seconds = timed(twoserver.split, people[name], terms, numbers[name])
        times.append(seconds)
        sent = sum(len(data) for data in said.values())
        for half, data in said.items():
            spent += timed(servers[half].take, name, data)[1]
    present = servers[Half.SEEDS].present()
    sums = {}
    for half, server in servers.items():
        sums[half], seconds = timed(server.add, present)
        spent += seconds
    total = twoserver.join(terms, sums)
    _check(terms, numbers, total, tuple(people))
    return {"client": statistics.median(times), "server": spent, "bytes": sent}


def _check(terms: Terms, numbers: Numbers, found: npt.NDArray[Any], who: tuple[int, ...]) -> None:
    want = np.zeros(terms.size, np.int64)
    for name in who:
        want += numbers[name]
    if not np.array_equal(found, want % 2**terms.bits):
        raise SystemExit("the secure sum is not the plain one")


def main() -> None:
    """Print a table, and write it where told."""
    parser = argparse.ArgumentParser(description="one secure sum")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--size", type=int, nargs="+", default=[8316, 1_663_370])
    parser.add_argument("--bits", type=int, default=12)
    parser.add_argument("--dropout", type=float, default=1 / 3)
    parser.add_argument("--corrupt", type=float, default=0.1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    people = {name: Identity.new() for name in range(args.clients)}
    draw, found, round = np.random.default_rng(0), [], 0
    for size in args.size:
        numbers = {name: draw.integers(-100, 100, size, np.int16) for name in people}
        for gone in (set(), set(range(int(args.dropout * args.clients)))):
            round += 1
            terms = agree(people, size, args, round)
            row = {"size": size, "degree": terms.degree} | graph_sum(terms, people, numbers, gone)
            found.append(row)
            moved = row["bytes"]["all"]
            print(
                f"{size:>9,} numbers, {len(gone):>3} lost: client {row['client']['all'] * 1e3:8.1f} ms"
                f" (mask {row['client']['mask'] * 1e3:.1f}), server {row['server']:6.2f} s,"
                f" up {moved['up']['max']:,.0f} bytes, down {moved['down']['max']:,.0f}"
            )
        round += 1
        row = {"size": size, "servers": 2} | two_sums(agree(people, size, args, round), people, numbers)
        found.append(row)
        print(
            f"{size:>9,} numbers, two servers: client {row['client'] * 1e3:.1f} ms, servers {row['server']:.2f} s,"
            f" up {row['bytes']:,} bytes"
        )
    if args.out:
        when = datetime.now(UTC).isoformat(timespec="minutes")
        text = json.dumps({"when": when, "machine": machine(), "clients": args.clients, "rows": found}, indent=1)
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
