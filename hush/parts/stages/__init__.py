"""Stages: what happens to an update between training and the wire, and back at the server."""

from hush.parts.stages.clip import AdaptiveClip, Clip
from hush.parts.stages.correlated import CorrelatedNoise
from hush.parts.stages.feedback import TopFeedback
from hush.parts.stages.integer import IntegerNoise
from hush.parts.stages.noise import Noise, ServerNoise
from hush.parts.stages.poisson_binomial import PoissonBinomial
from hush.parts.stages.qsgd import Qsgd
from hush.parts.stages.quantise import FixedPoint, Quantise
from hush.parts.stages.rotate import Rotate
from hush.parts.stages.sense import Sense
from hush.parts.stages.sign import Sign
from hush.parts.stages.twobit import TwoBit
from hush.parts.stages.weigh import Weigh

__all__ = [
    "AdaptiveClip",
    "Clip",
    "CorrelatedNoise",
    "FixedPoint",
    "IntegerNoise",
    "Noise",
    "PoissonBinomial",
    "Qsgd",
    "Quantise",
    "Rotate",
    "Sense",
    "ServerNoise",
    "Sign",
    "TopFeedback",
    "TwoBit",
    "Weigh",
]
