"""A whole secure sum in one process: for tests, for the simulator, and as the example of how the two sides meet."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hush.errors import Aborted, Mistake
from hush.secure.bits import Words
from hush.secure.client import Client
from hush.secure.keys import Draw, Identity
from hush.secure.messages import PHASES, Phase
from hush.secure.server import Server
from hush.secure.tally import Tally
from hush.secure.terms import Terms

Lost = Callable[[str, int], bool]


@dataclass(frozen=True)
class Outcome:
    """The sum modulo 2^bits, whose it is, the bytes of each phase, and what was refused, in a sentence each."""

    residues: Words
    survivors: tuple[int, ...]
    tally: Tally
    refused: tuple[str, ...]


def run(
    terms: Terms,
    identities: Mapping[int, Identity],
    numbers: Mapping[int, npt.NDArray[np.integer]],
    lost: Lost = lambda phase, client: False,
    draw: Draw = os.urandom,
) -> Outcome:
    """All clients and the server; a client for which `lost(phase, client)` says so is gone from that phase on."""
    server = Server(terms)
    clients = {name: Client(identities[name], terms, draw) for name, _ in terms.cohort}
    outgoing = dict.fromkeys(clients, b"")
    refused = []
    for phase in PHASES:
        for name, data in outgoing.items():
            if lost(phase.word, name):
                continue
            try:
                server.take(name, answer(clients[name], phase, data, numbers[name]))
            except (Mistake, Aborted) as why:
                refused.append(f"client {name}: {why}")
        if phase is not Phase.UNMASK:
            outgoing = server.advance()
    opened = server.finish()
    return Outcome(opened.residues, opened.survivors, server.tally, (*server.refused, *refused))


def answer(client: Client, phase: Phase, data: bytes, numbers: npt.NDArray[np.integer]) -> bytes:
    """What a client says to a message of this phase."""
    match phase:
        case Phase.ADVERTISE:
            return client.advertise()
        case Phase.SHARE:
            return client.share(data)
        case Phase.MASK:
            return client.mask(data, numbers)
        case Phase.CONSENT:
            return client.consent(data)
        case Phase.UNMASK:
            return client.unmask(data)
    raise Mistake(f"phase {phase.word} asks for nothing")
