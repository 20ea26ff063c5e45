"""A slow link between two new network namespaces: `python benchmarks/link.py A B --delay 0.05 --loss 0.01`, as root.

What `tc netem` does where the kernel has it, in user space: each namespace has a TUN device, and this process carries
packets between the two, each after `--delay` seconds and all but a part of `--loss`. A is 10.77.0.1, B is 10.77.0.2.
SIGUSR1 cuts the link and joins it again. Both namespaces go with the process.
"""

import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import time

TUNSETIFF, TUN, NO_HEAD, LARGEST = 0x400454CA, 0x0001, 0x1000, 65536


def tun(namespace: str, address: str) -> int:
    """A device in a new namespace, as a file of packets."""
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    with open(f"/run/netns/{namespace}") as place, open("/proc/self/ns/net") as home:
        _enter(place.fileno())
        try:
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"wan", TUN | NO_HEAD))
        finally:
            _enter(home.fileno())
    for words in (f"addr add {address}/24 dev wan", "link set lo up", "link set wan up"):
        subprocess.run(["ip", "-n", namespace, *words.split()], check=True)
    return device


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "the namespace cannot be entered")


def carry(one: int, other: int, delay: float, loss: float) -> None:
    """Packets from each end to the other, until SIGTERM."""
    cut, waiting, number, ends = [False], list[tuple[float, int, int, bytes]](), 0, {one: other, other: one}
    signal.signal(signal.SIGUSR1, lambda *_: cut.__setitem__(0, not cut[0]))
    draw = random.Random(0)
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select(list(ends), [], [], left)[0]:
            packet = os.read(end, LARGEST)
            if not cut[0] and draw.random() >= loss:
                number += 1
                heapq.heappush(waiting, (time.monotonic() + delay, number, ends[end], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            os.write(*heapq.heappop(waiting)[2:])


def main() -> None:
    """The link, until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs=2)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds each way")
    parser.add_argument("--loss", type=float, default=0.01, help="part of the packets, each way")
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ends = dict[str, int]()
    try:
        for number, name in enumerate(wanted.names, 1):
            ends[name] = tun(name, f"10.77.0.{number}")
        print("ready", flush=True)
        carry(*ends.values(), wanted.delay, wanted.loss)
    except KeyboardInterrupt:
        pass
    finally:
        for name in ends:
            subprocess.run(["ip", "netns", "del", name], check=False)


if __name__ == "__main__":
    main()
