"""Secure sums: a server adds up what clients send and sees nothing but the sum. Imports errors alone.

Bonawitz and others 2017, with the sparse graph of Bell and others 2020: pairwise masks that cancel, a self mask, and
both secrets shared with the neighbours so that the sum survives dropouts. Client and server eat and emit bytes; they
know no network, no thread and no clock.
"""

from hush.secure.client import Client
from hush.secure.driver import Outcome, Round, run
from hush.secure.graph import degree
from hush.secure.keys import Identity
from hush.secure.masks import centred
from hush.secure.server import Opened, Server
from hush.secure.tally import Tally, expected
from hush.secure.terms import Terms, binding
from hush.secure.twoserver import Halves

__all__ = [
    "Client",
    "Halves",
    "Identity",
    "Opened",
    "Outcome",
    "Round",
    "Server",
    "Tally",
    "Terms",
    "binding",
    "centred",
    "degree",
    "expected",
    "run",
]
