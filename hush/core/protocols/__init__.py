"""What the parts of a scheme promise. Nobody asks for a part's type: what a part is, it says itself.

A part inherits its protocol, which has the neutral answer to what few parts need to say, and answers the rest.
`settings` are the names of the user's settings that it listens to.
"""

from hush.core.protocols.clients import ClientRound, Counted, Parts, Sampling, Trainer, Turns, named
from hush.core.protocols.server import (
    Aggregator,
    Coordinates,
    Downlink,
    Roster,
    Secrecy,
    ServerRound,
    Step,
    sent_down,
)
from hush.core.protocols.stages import Claim, Recovery, Room, Source, Stage

__all__ = [
    "Aggregator",
    "Claim",
    "ClientRound",
    "Coordinates",
    "Counted",
    "Downlink",
    "Parts",
    "Recovery",
    "Room",
    "Roster",
    "Sampling",
    "Secrecy",
    "ServerRound",
    "Source",
    "Stage",
    "Step",
    "Trainer",
    "Turns",
    "named",
    "sent_down",
]
