"""hush's own parts by name, and a scheme read back from its JSON."""

from hush.core import serialise
from hush.core.plain import All, Average, Exact, Sum
from hush.core.scheme import Scheme
from hush.errors import Mistake
from hush.parts.aggregators import BitVote, SecureSum
from hush.parts.blocks import Blocks
from hush.parts.coordinates import Only, RandomK, TopK, Vote
from hush.parts.downlink import Coarse
from hush.parts.sampling import Fixed, Once, Poisson
from hush.parts.stages import (
    AdaptiveClip,
    Clip,
    CorrelatedNoise,
    FixedPoint,
    IntegerNoise,
    Noise,
    PoissonBinomial,
    Qsgd,
    Quantise,
    Rotate,
    Sense,
    ServerNoise,
    Sign,
    TopFeedback,
    TwoBit,
    Weigh,
)
from hush.parts.steps import Momentum, SignStep, Stay
from hush.parts.trainers import Dpsgd, Ridge, Sgd

PARTS: tuple[type, ...] = (
    *(All, Blocks, Only, RandomK, TopK, Vote),
    *(Dpsgd, Ridge, Sgd),
    *(Fixed, Once, Poisson),
    *(AdaptiveClip, Clip, CorrelatedNoise, FixedPoint, IntegerNoise, Noise, PoissonBinomial, Qsgd, Quantise, Rotate),
    *(Sense, ServerNoise, Sign, TopFeedback, TwoBit, Weigh),
    *(Average, Momentum, SignStep, Stay),
    *(BitVote, SecureSum, Sum),
    *(Coarse, Exact),
)


def from_json(text: str, *others: type) -> Scheme:
    """The scheme that `Scheme.to_json` wrote. `others`: classes of parts that are not hush's, if it may have any."""
    found = serialise.from_json(text, (Scheme, *PARTS, *others))
    if not isinstance(found, Scheme):
        raise Mistake(f"the text describes {type(found).__name__}, and no scheme: give what Scheme.to_json wrote")
    return found
