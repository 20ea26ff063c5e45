"""hush's secure sum: every client with terms of its own, and the server, in one process.

A client's time has the rounding of its numbers in it, and the making of messages. Its share of noise, which the
other side has not, is measured apart, on a few clients. With two servers the server's time is that of both.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from secure_turns import Request, Times, client_times, error, serve, timed, turn, vector, versions

from hush.core.spec import ClientContext, Plan, Spec
from hush.parts.stages import IntegerNoise, Quantise
from hush.privacy.grids import settle
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed
from hush.secure import Client, Identity, Server, Terms, binding, centred, twoserver
from hush.secure.driver import answer as said
from hush.secure.messages import PHASES, Phase
from hush.secure.twoserver import Half, HalfServer

NOISE = 1.54  # the paper's, for which the grid leaves room
FEW = 5
_round = 0


class Rounded:
    """Inputs in integers, on the grid of a private run: the finest of `bits`, or with None as hush chooses."""

    def __init__(self, request: Request) -> None:
        self.size, clients = request["size"], request["clients"]
        self.floor = clients - request["lost"]
        grid = settle(self.size, clients, self.floor, NOISE, bits=request["bits"])
        self.bits, self.stage = grid.bits, Quantise(grid.steps, grid.bits)
        self.plan = Plan(1, torch.empty(0), None, clients, self.floor)
        self.secret = SecretSeed.system()

    def numbers(self, client: int) -> tuple[npt.NDArray[np.int32], float]:
        """Of a client, and the CPU seconds of its rounding."""
        x, context = torch.from_numpy(vector(client, self.size))[None], self._context(Spec(self.size, 1.0), client)
        found, seconds = timed(self.stage.encode, x, context)
        return found[0].numpy(), seconds

    def noise(self, client: int) -> float:
        """CPU seconds of a client's share of noise."""
        rows = torch.from_numpy(self.numbers(client)[0])[None]
        return timed(IntegerNoise(NOISE).encode, rows, self._context(self.stage.spec(Spec(self.size, 1.0)), client))[1]

    def error(self, residues: npt.NDArray[Any], alive: range) -> float:
        """How far the sum is from that of the inputs."""
        true = sum(vector(client, self.size).astype(np.float64) for client in alive)
        return error(centred(residues, self.bits) / self.stage.steps, true)

    def _context(self, spec: Spec, client: int) -> ClientContext:
        return ClientContext(spec, self.plan, torch.ones(1), Draws(self.secret, (client,)))


def graph_sum(request: Request, terms: Terms, people: list[Identity], rounded: Rounded) -> dict[str, Any]:
    """The whole protocol; who is lost shares its secrets and then is gone."""
    server, spent = timed(Server, terms)
    times: Times = {"quantise": [], **{phase.word: [] for phase in PHASES}}
    clients: dict[int, Client] = {}
    plain, asked = np.zeros(terms.size, np.int64), dict.fromkeys(range(len(people)), b"")
    for phase in PHASES:
        for name, data in asked.items():
            if phase >= Phase.MASK and name < request["lost"]:
                continue
            begun, numbers = 0.0, None
            if phase is Phase.ADVERTISE:  # terms of its own: nothing that it must work out is there already
                clients[name], begun = timed(lambda who: Client(people[who], replace(terms)), name)
            if phase is Phase.MASK:
                numbers, seconds = rounded.numbers(name)
                times["quantise"].append(seconds)
                plain += numbers
            reply, seconds = timed(said, clients[name], phase, data, numbers)
            times[phase.word].append(begun + seconds)
            spent += timed(server.take, name, reply)[1]
            turn()
        if phase is not Phase.UNMASK:
            asked, seconds = timed(server.advance)
            spent += seconds
    opened, seconds = timed(server.finish)
    _check(opened.residues, plain, terms.bits)
    moved, phases = server.tally.summary(), [phase.word for phase in PHASES]
    return {
        "client": client_times(times),
        "server": spent + seconds,
        "bytes": {
            way: {"mean": moved["all"][way]["mean"], "max": moved["all"][way]["max"]}
            | {phase: moved[phase][way]["max"] for phase in phases}
            for way in ("up", "down")
        },
        "error": rounded.error(opened.residues, range(request["lost"], len(people))),
    }


def two_sums(request: Request, terms: Terms, people: list[Identity], rounded: Rounded) -> dict[str, Any]:
    """Two servers; who is lost sends nothing."""
    keys, spent, sent = {half: Identity.new() for half in Half}, 0.0, 0
    servers = {half: HalfServer(terms, half, keys[half], keys[half.other].public) for half in Half}
    times: Times = {"quantise": [], "mask": []}
    plain = np.zeros(terms.size, np.int64)
    for name in range(request["lost"], len(people)):
        numbers, seconds = rounded.numbers(name)
        times["quantise"].append(seconds)
        plain += numbers
        halves, seconds = timed(lambda who, what: twoserver.split(people[who], replace(terms), what), name, numbers)
        times["mask"].append(seconds)
        sent = sum(map(len, halves.values()))
        for half, data in halves.items():
            spent += timed(servers[half].take, name, data)[1]
        turn()
    sums, present = {}, {half: server.present() for half, server in servers.items()}
    for half, server in servers.items():
        sums[half], seconds = timed(server.add, present[half.other])
        spent += seconds
    total = twoserver.join(terms, {half: key.public for half, key in keys.items()}, sums).residues
    _check(total, plain, terms.bits)
    found = {"up": {"max": float(sent)}, "down": {"max": 0.0}}
    alive = range(request["lost"], len(people))
    return {
        "client": client_times(times),
        "server": spent,
        "bytes": found,
        "error": rounded.error(total, alive),
    }


def answer(request: Request) -> dict[str, Any]:
    """One round."""
    global _round
    _round += 1
    people = [Identity.new() for _ in range(request["clients"])]
    cohort = tuple((name, identity.public) for name, identity in enumerate(people))
    rates = {"dropout": request["dropout"], "corrupt": request["corrupt"]}
    rounded = Rounded(request)
    bits, size = rounded.bits, rounded.size
    terms = Terms.choose("benchmark", _round, cohort, bits, size, binding(b"benchmark"), **rates)
    rounded.noise(0)  # makes its table
    noise = min(rounded.noise(client) for client in range(FEW))
    found = (two_sums if request["servers"] == 2 else graph_sum)(request, terms, people, rounded)
    used = versions("numpy", "cryptography", "torch")
    return found | {"bits": bits, "steps": rounded.stage.steps, "noise": noise, "versions": used}


def _check(found: npt.NDArray[Any], plain: npt.NDArray[np.int64], bits: int) -> None:
    if not np.array_equal(found, plain % 2**bits):
        raise SystemExit("the secure sum is not the plain one")


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(answer)
