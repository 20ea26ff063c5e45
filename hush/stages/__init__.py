"""Stages: what happens to an update between training and the wire, and back at the server."""

from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from hush.spec import Context, Multipliers, Plan, Spec, Total
from hush.stages.clip import AdaptiveClip, Clip
from hush.stages.coins import Coins
from hush.stages.correlated import CorrelatedNoise
from hush.stages.feedback import TopFeedback
from hush.stages.integer import IntegerNoise
from hush.stages.noise import Noise, ServerNoise
from hush.stages.qsgd import Qsgd
from hush.stages.quantise import FixedPoint, Quantise, centred
from hush.stages.rotate import Rotate
from hush.stages.sense import Sense
from hush.stages.sign import Sign
from hush.stages.twobit import TwoBit
from hush.stages.weigh import Weigh

__all__ = [
    "AdaptiveClip",
    "Clip",
    "Coins",
    "CorrelatedNoise",
    "FixedPoint",
    "IntegerNoise",
    "Noise",
    "Qsgd",
    "Quantise",
    "Rotate",
    "Sense",
    "ServerNoise",
    "Sign",
    "Source",
    "Stage",
    "TopFeedback",
    "TwoBit",
    "Weigh",
    "centred",
]


class Stage(Protocol):
    """Both halves of a mechanism: encode at the client, decode at the server."""

    def spec(self, s: Spec) -> Spec:
        """What is known of the output, given the input; a wrong combination is refused here."""
        ...

    def encode(self, x: Tensor, ctx: Context) -> Tensor:
        """At the client: one row per client. The input is the stage's to change, and may be the output."""
        ...

    def decode(self, total: Total, ctx: Context) -> Total:
        """At the server, in reverse order."""
        ...


@runtime_checkable
class Source(Protocol):
    """A stage whose noise protects clients: it states Spec.noise, and what that is worth against whom.

    `shared`: each client adds a share of it, and `decode` adds those of the clients that were drawn and did not answer.
    """

    shared: ClassVar[bool]

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        """Against readers of the models, the server, and a reader of one upload; `s` is the Spec in front of it.

        `present`: how many clients' noise the server does not know.
        """
        ...
