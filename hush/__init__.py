"""hush: federated learning that says little and reveals less.

A public name is imported when it is first used: `import hush` and the quick commands wait for no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hush.catalogue.entries import scheme
    from hush.catalogue.secure_form import secured
    from hush.core.engine import Engine
    from hush.core.plain import All, Average, Exact, Sum
    from hush.core.protocols import Aggregator, Coordinates, Downlink, Sampling, Source, Stage, Step, Trainer
    from hush.core.rounds import Report
    from hush.core.scheme import Scheme
    from hush.core.state import State
    from hush.core.task import Task
    from hush.data import partition
    from hush.data.registry import dataset
    from hush.data.samples import Samples, Split, samples
    from hush.data.sparse import Sparse
    from hush.errors import Aborted, Mistake, Refused
    from hush.experiment.fitting import Run, fit
    from hush.experiment.model import Model, load
    from hush.federation.cluster import Cluster
    from hush.federation.loopback import Loopback
    from hush.federation.policy import Policy
    from hush.federation.simulated import Simulated, rounds
    from hush.models.measures.own import OwnMetrics
    from hush.models.metrics import evaluate
    from hush.parts.aggregators import BitVote, SecureSum
    from hush.parts.blocks import Blocks
    from hush.parts.coordinates import Only, RandomK, TopK, Vote
    from hush.parts.downlink import Coarse
    from hush.parts.registry import from_json
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
    from hush.privacy.ledger import Ledger
    from hush.random.seeds import PublicSeed, SecretSeed

__version__ = "0.1.0"
__all__ = [
    "Aborted",
    "AdaptiveClip",
    "Aggregator",
    "All",
    "Average",
    "BitVote",
    "Blocks",
    "Clip",
    "Cluster",
    "Coarse",
    "Coordinates",
    "CorrelatedNoise",
    "Downlink",
    "Dpsgd",
    "Engine",
    "Exact",
    "Fixed",
    "FixedPoint",
    "IntegerNoise",
    "Ledger",
    "Loopback",
    "Mistake",
    "Model",
    "Momentum",
    "Noise",
    "Once",
    "Only",
    "OwnMetrics",
    "Poisson",
    "PoissonBinomial",
    "Policy",
    "PublicSeed",
    "Qsgd",
    "Quantise",
    "RandomK",
    "Refused",
    "Report",
    "Ridge",
    "Rotate",
    "Run",
    "Samples",
    "Sampling",
    "Scheme",
    "SecretSeed",
    "SecureSum",
    "Sense",
    "ServerNoise",
    "Sgd",
    "Sign",
    "SignStep",
    "Simulated",
    "Source",
    "Sparse",
    "Split",
    "Stage",
    "State",
    "Stay",
    "Step",
    "Sum",
    "Task",
    "TopFeedback",
    "TopK",
    "Trainer",
    "TwoBit",
    "Vote",
    "Weigh",
    "dataset",
    "evaluate",
    "fit",
    "from_json",
    "load",
    "partition",
    "rounds",
    "samples",
    "scheme",
    "secured",
]

# Where each public name lives, as type checkers read it above; a test holds the two equal.
_HOMES = {
    "hush.catalogue.entries": "scheme",
    "hush.catalogue.secure_form": "secured",
    "hush.core.engine": "Engine",
    "hush.core.rounds": "Report",
    "hush.core.plain": "All Average Exact Sum",
    "hush.core.protocols": "Aggregator Coordinates Downlink Sampling Source Stage Step Trainer",
    "hush.core.scheme": "Scheme",
    "hush.core.state": "State",
    "hush.core.task": "Task",
    "hush.data": "partition",
    "hush.data.registry": "dataset",
    "hush.data.samples": "Samples Split samples",
    "hush.data.sparse": "Sparse",
    "hush.errors": "Aborted Mistake Refused",
    "hush.experiment.fitting": "Run fit",
    "hush.experiment.model": "Model load",
    "hush.federation.cluster": "Cluster",
    "hush.federation.loopback": "Loopback",
    "hush.federation.policy": "Policy",
    "hush.federation.simulated": "Simulated rounds",
    "hush.models.measures.own": "OwnMetrics",
    "hush.models.metrics": "evaluate",
    "hush.parts.aggregators": "BitVote SecureSum",
    "hush.parts.blocks": "Blocks",
    "hush.parts.coordinates": "Only RandomK TopK Vote",
    "hush.parts.downlink": "Coarse",
    "hush.parts.registry": "from_json",
    "hush.parts.sampling": "Fixed Once Poisson",
    "hush.parts.stages": "AdaptiveClip Clip CorrelatedNoise FixedPoint IntegerNoise Noise PoissonBinomial Qsgd"
    " Quantise Rotate Sense ServerNoise Sign TopFeedback TwoBit Weigh",
    "hush.parts.steps": "Momentum SignStep Stay",
    "hush.parts.trainers": "Dpsgd Ridge Sgd",
    "hush.privacy.ledger": "Ledger",
    "hush.random.seeds": "PublicSeed SecretSeed",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


if not TYPE_CHECKING:  # which knows the names above, and no others

    def __getattr__(name: str) -> object:
        """A public name, from its module (PEP 562)."""
        if name not in _HOME:
            raise AttributeError(f"module 'hush' has no attribute {name!r}")
        module = import_module(_HOME[name])
        # `hush.partition` is a module itself.
        found = getattr(module, name) if hasattr(module, name) else import_module(f"{_HOME[name]}.{name}")
        globals()[name] = found  # from now on as quick as any other
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
