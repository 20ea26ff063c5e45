"""One secure sum at scale: CPU time of a client and of the server by phase, and what the server holds.

    python benchmarks/secure_scale.py [--clients N ...] [--size N ...] [--out FILE]

The graph is as hush chooses it for a twentieth lost and a tenth colluding, and a twentieth is lost after it shared its
secrets. The server does all of its work, on messages of every client, and the sum is checked to the bit. A few clients
are timed, and do all of theirs, with terms of their own; the rest leave out what nobody could see: they check no
signatures, and make no masks that cancel between two of them. `held` is the size of all objects that the server has
after the last upload, counted one by one: its numbers (one sum, whatever the cohort) and the rest (sets of neighbours,
and what clients published).
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from bench import machine

from hush.secure import Client, Identity, Server, Terms, binding
from hush.secure import client as at_client
from hush.secure.driver import answer
from hush.secure.messages import PHASES, Phase

Row = dict[str, Any]
FEW, BITS, LOST, CORRUPT = 5, 16, 0.05, 0.1
_real = at_client.masks.add, at_client.pair_key, at_client.signed
_spent = {"masks": 0.0}


def timed(call: Any, *given: Any) -> tuple[Any, float]:
    """What a call gives, and its CPU seconds."""
    start = time.process_time()
    found = call(*given)
    return found, time.process_time() - start


def add(numbers: Any, plus: Any, minus: Any) -> None:
    """Masks of all keys but empty ones, timed."""
    kept = [[key for key in keys if key] for keys in (plus, minus)]
    _spent["masks"] += timed(_real[0], numbers, *kept)[1]


@contextmanager
def brief(shown: range) -> Iterator[None]:
    """A client that leaves out what cancels: masks with others than these seats, who are timed or lost."""

    def some(secret: bytes, digest: bytes, own: int, other: int) -> bytes:
        return _real[1](secret, digest, own, other) if other in shown else b""

    at_client.pair_key, at_client.signed = some, lambda *given: True
    try:
        yield
    finally:
        at_client.pair_key, at_client.signed = _real[1:]


def held(server: Server) -> dict[str, int]:
    """Bytes of the sum, and of all else that the server has but for the terms, which everybody has."""
    seen, left, rest = {id(server.terms)}, [vars(server)], 0
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | int | np.ndarray):
            continue
        seen.add(id(one))
        rest += sys.getsizeof(one)
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set):
            left += one
        elif hasattr(one, "__dict__"):
            left.append(vars(one))
    return {"numbers": server._sum.nbytes, "rest": rest}


def measure(clients: int, size: int, people: list[Identity]) -> Row:
    """One round: the first are lost, and the next few are timed."""
    lost = int(LOST * clients)
    shown = range(lost + FEW)
    cohort = tuple((name, identity.public) for name, identity in enumerate(people))
    rates = {"dropout": LOST, "corrupt": CORRUPT}
    terms = Terms.choose(f"{clients} {size}", 1, cohort, BITS, size, binding(b"%d %d" % (clients, size)), **rates)
    server, draw = Server(terms), np.random.default_rng(1)
    numbers, plain = draw.integers(-9, 10, (16, size), np.int32), np.zeros(size, np.int64)
    members, asked = {}, dict.fromkeys(range(clients), b"")
    client: dict[str, list[float]] = {phase.word: [] for phase in PHASES}
    spent = {phase.word: 0.0 for phase in PHASES}
    row: Row = {"clients": clients, "size": size, "bits": BITS, "degree": terms.degree, "shares": terms.shares}
    for phase in PHASES:
        for name, data in asked.items():
            if phase >= Phase.MASK and name < lost:
                continue
            begun, whole = 0.0, lost <= name < lost + FEW
            if phase is Phase.ADVERTISE:  # terms of its own: nothing that it must work out is there already
                members[name], begun = timed(Client, people[name], replace(terms) if whole else terms)
            if whole:
                said, seconds = timed(answer, members[name], phase, data, numbers[name % 16])
                client[phase.word].append(begun + seconds)
            else:
                with brief(shown):
                    said = answer(members[name], phase, data, numbers[name % 16])
            if phase is Phase.MASK:
                plain += numbers[name % 16]
            taken, seconds = timed(server.take, name, said)
            assert taken, server.refused
            spent[phase.word] += seconds
        if phase is Phase.MASK:
            row["held"] = held(server)
        _spent["masks"] = 0.0
        after, seconds = timed(server.finish if phase is Phase.UNMASK else server.advance)
        spent[phase.word] += seconds
        asked = after if phase is not Phase.UNMASK else {}
    assert np.array_equal(after.residues, plain % 2**BITS), "the secure sum is not the plain one"
    moved = server.tally.summary()["all"]
    medians = {phase: statistics.median(each) for phase, each in client.items()}
    return row | {
        "lost": lost,
        "client": medians | {"all": sum(medians.values())},
        "server": spent | {"all": sum(spent.values()), "of which masks": _spent["masks"]},
        "bytes": {way: moved[way]["max"] for way in ("up", "down")},
    }


def line(row: Row) -> str:
    """A row in words."""
    client, server, held = row["client"], row["server"], row["held"]
    return (
        f"{row['clients']:>6,} clients, {row['size']:>9,} numbers, {row['degree']:>3} neighbours,"
        f" {row['lost']:>3} lost:"
        f" client {client['all'] * 1e3:5.1f} ms, server {server['all']:6.2f} s (masks {server['of which masks']:.2f}),"
        f" up {row['bytes']['up']:>9,.0f}, down {row['bytes']['down']:>6,.0f} bytes,"
        f" held {held['numbers'] / 1e6:.2f} + {held['rest'] / 1e6:.1f} MB"
    )


def main() -> None:
    """Print a line for each case, and write all of them where told."""
    parser = argparse.ArgumentParser(description="one secure sum at scale")
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--size", type=int, nargs="+", default=[8316, 1_663_370])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    at_client.masks.add, rows = add, []
    for clients in args.clients:
        people = [Identity.new() for _ in range(clients)]
        for size in args.size:
            rows.append(measure(clients, size, people))
            print(line(rows[-1]), flush=True)
            if args.out:
                when = datetime.now(UTC).isoformat(timespec="minutes")
                page = {"when": when, "machine": machine(), "rows": rows}
                short = json.loads(json.dumps(page), parse_float=lambda text: round(float(text), 6))
                args.out.write_text(json.dumps(short, indent=1) + "\n")


if __name__ == "__main__":
    main()
