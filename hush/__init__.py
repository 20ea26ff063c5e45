"""hush: federated learning that says little and reveals less."""

from hush.aggregators import BitVote, SecureSum, Sum
from hush.catalogue import scheme
from hush.coordinates import All, Only, RandomK, TopK, Vote
from hush.data import Samples, Sparse, Split, load, partition, samples
from hush.downlink import Coarse, Exact
from hush.errors import Aborted, Mistake
from hush.metrics import evaluate
from hush.privacy import Ledger
from hush.rng import PublicSeed, SecretSeed
from hush.rounds import Report, rounds
from hush.sampling import Fixed, Once, Poisson
from hush.scheme import Scheme
from hush.secured import secured
from hush.stages import (
    AdaptiveClip,
    Clip,
    Coins,
    CorrelatedNoise,
    FixedPoint,
    IntegerNoise,
    Noise,
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
from hush.state import State
from hush.steps import Average, Momentum, SignStep, Stay
from hush.task import Task
from hush.trainers import Dpsgd, Engine, Sgd
from hush.transports import Local, Loopback

__version__ = "0.1.0"
__all__ = [
    "Aborted",
    "AdaptiveClip",
    "All",
    "Average",
    "BitVote",
    "Clip",
    "Coarse",
    "Coins",
    "CorrelatedNoise",
    "Dpsgd",
    "Engine",
    "Exact",
    "Fixed",
    "FixedPoint",
    "IntegerNoise",
    "Ledger",
    "Local",
    "Loopback",
    "Mistake",
    "Momentum",
    "Noise",
    "Once",
    "Only",
    "Poisson",
    "PublicSeed",
    "Qsgd",
    "Quantise",
    "RandomK",
    "Report",
    "Rotate",
    "Samples",
    "Scheme",
    "SecretSeed",
    "SecureSum",
    "Sense",
    "ServerNoise",
    "Sgd",
    "Sign",
    "SignStep",
    "Sparse",
    "Split",
    "State",
    "Stay",
    "Sum",
    "Task",
    "TopFeedback",
    "TopK",
    "TwoBit",
    "Vote",
    "Weigh",
    "evaluate",
    "load",
    "partition",
    "rounds",
    "samples",
    "scheme",
    "secured",
]
