"""One secure sum: CPU time of a client and of the server, and bytes; on request beside Flower's SecAgg+.

    python benchmarks/secure.py [--flower] [--clients N] [--size N ...] [--bits B] [--dropout R ...] [--out FILE]

Each dropout rate has its graph, as hush chooses it, and Flower gets the same number of neighbours and of shares. So
many clients are lost after they shared their secrets, which is the worst case: the server rebuilds the masks of each
with all its neighbours. Contenders are processes of one thread that take turns, one client's work at a time, on the
same inputs. Sums are checked: hush's against the plain sum of the same integers, bit for bit, Flower's against
that of the inputs, to its quantisation. hush is measured without losses and with two servers as well.
"""

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import environments
from environments import HERE, ROOT
from machine import machine

from hush.secure import degree

Row = dict[str, Any]


class Contender:
    """A worker's process, which computes only while it is waited for."""

    def __init__(self, python: Path, worker: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [python, HERE / "workers" / f"{worker}.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=kept | threads | {"PYTHONPATH": str(ROOT)},
            text=True,
        )

    def go(self, request: Row | None = None) -> Row | None:
        """One turn, or the first one of a request: what was found, once it is done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request or "go"), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a contender has failed: see above")
        return json.loads(line).get("done")

    def close(self) -> None:
        """Ends with its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def together(asked: dict[str, tuple[Contender, Row]]) -> dict[str, Row]:
    """All their rounds, turn by turn."""
    found = {name: contender.go(request) for name, (contender, request) in asked.items()}
    while waiting := [name for name, row in found.items() if row is None]:
        for name in waiting:
            found[name] = asked[name][0].go()
    return {name: row for name, row in found.items() if row is not None}


def measure(args: argparse.Namespace) -> list[Row]:
    """A row for each contender and case; what there is so far is written after each case."""
    hush = {"hush": None, f"hush, {args.bits} bits": args.bits}
    contenders = {name: Contender(Path(sys.executable), "secure_hush") for name in hush}
    if args.flower:
        environments.ready("flower")
        contenders["Flower SecAgg+"] = Contender(environments.binaries("flower") / "python", "secure_flower")
    rows: list[Row] = []

    def case(size: int, dropout: float, lost: int, names: list[str], servers: int = 1, also: int | None = None) -> None:
        k, shares = degree(args.clients, dropout, args.corrupt)
        key = {"size": size, "degree": k, "shares": shares, "lost": lost, "servers": servers}
        request = key | {"clients": args.clients, "dropout": dropout, "corrupt": args.corrupt, "also": also}
        before = len(rows)
        asked = {name: (contenders[name], request | {"bits": hush.get(name)}) for name in names}
        for name, found in together(asked).items():
            other = found.pop("also", None)
            rows.append({"contender": name} | key | found)
            if other:
                rows.append({"contender": name} | key | other | {"size": also})
        print(*map(line, rows[before:]), sep="\n", flush=True)
        save(args, rows)

    small, large = args.size[0], args.size[-1]
    for dropout in args.dropout:
        complete = degree(args.clients, dropout, args.corrupt)[0] == args.clients - 1
        for size in args.size:
            # Flower takes minutes for a complete graph: one round at the small size, a few clients' masks at the large.
            names = list(hush) if complete and size != small else list(contenders)
            also = large if complete and size == small != large else None
            case(size, dropout, int(dropout * args.clients), names, also=also)
    for size in args.size:
        for dropout in args.dropout:
            case(size, dropout, 0, list(hush))
        case(size, args.dropout[0], 0, list(hush), servers=2)
    for contender in contenders.values():
        contender.close()
    return rows


def line(row: Row) -> str:
    """A row in words."""
    server = f"{row['server']:7.2f} s" if "server" in row else "      -  "
    graph = f"{row['degree']:>3} neighbours" if row["servers"] == 1 else "   two servers"
    return (
        f"{row['contender']:<15} {row['size']:>9,} numbers, {graph}, {row['lost']:>3} lost:"
        f" client {row['client']['all']['median'] * 1e3:8.1f} ms, server {server},"
        f" up {row['bytes']['up']['max']:>10,.0f}, down {row['bytes']['down']['max']:>7,.0f} bytes"
    )


def ratios(rows: list[Row]) -> list[Row]:
    """Flower's CPU time over hush's, and hush's bytes over Flower's, at the same size, graph and losses."""
    key, found = ("size", "degree", "lost", "servers"), []
    peers = {tuple(row[name] for name in key): row for row in rows if row["contender"].startswith("Flower")}
    for row in rows:
        peer = peers.get(tuple(row[name] for name in key))
        if peer is None or peer["contender"] == row["contender"]:
            continue
        time = {way: peer["client"]["all"][way] / row["client"]["all"][way] for way in ("median", "least")}
        masks = sum(row["client"][phase]["median"] for phase in ("quantise", "mask"))
        moved = [sum(each["bytes"][way]["max"] for way in ("up", "down")) for each in (row, peer)]
        found.append(
            {name: row[name] for name in ("contender", "bits", *key)}
            | {"client": time["median"], "least": time["least"], "bytes": moved[0] / moved[1]}
            | {"masking": peer["client"]["collect_masked_vectors"]["median"] / masks}
            | ({"server": peer["server"] / row["server"]} if "server" in peer else {})
        )
    return found


def save(args: argparse.Namespace, rows: list[Row]) -> None:
    """Write it where told."""
    if args.out:
        when = datetime.now(UTC).isoformat(timespec="minutes")
        page = {"when": when, "machine": machine(), "clients": args.clients, "ratios": ratios(rows), "rows": rows}
        short = json.loads(json.dumps(page), parse_float=lambda text: round(float(text), 7))
        args.out.write_text(json.dumps(short, indent=1) + "\n")


def main() -> None:
    """Print a table, and write it where told."""
    parser = argparse.ArgumentParser(description="one secure sum")
    parser.add_argument("--flower", action="store_true", help="beside Flower's SecAgg+: builds its environment once")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--size", type=int, nargs="+", default=[8316, 1_663_370])
    parser.add_argument("--bits", type=int, default=32, help="beside those that hush chooses")
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.05], help="1/3: a complete graph")
    parser.add_argument("--corrupt", type=float, default=0.1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    for row in ratios(measure(args)):
        server = f", server {row['server']:.1f}" if "server" in row else ""
        print(
            f"{row['contender']} at {row['size']:,} numbers, {row['degree']} neighbours, {row['lost']} lost: Flower's"
            f" client time {row['client']:.1f} times as long{server}, bytes {row['bytes']:.3f} of Flower's"
        )


if __name__ == "__main__":
    main()
