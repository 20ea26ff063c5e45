"""The public names: a change of them is a change of the interface, made here too."""

import ast
from pathlib import Path

import pytest

import hush

NAMES = """Aggregator Coordinates Downlink Sampling Source Stage Step Trainer from_json Aborted AdaptiveClip All Average
BitVote Blocks Clip Cluster Coarse PoissonBinomial CorrelatedNoise Dpsgd Engine Exact Fixed FixedPoint IntegerNoise
Ledger Loopback Mistake Momentum Noise Once Only OwnMetrics Poisson Policy PublicSeed Qsgd Quantise RandomK Refused
Report Ridge Rotate Samples Scheme SecretSeed SecureSum Sense ServerNoise Sgd Sign SignStep Simulated Sparse Split
State Stay Sum Task TopFeedback TopK TwoBit Vote Weigh Run Model dataset evaluate fit load partition rounds samples
scheme secured""".split()


def test_the_list_of_public_names():
    assert sorted(hush.__all__) == sorted(NAMES)
    for name in NAMES:
        assert getattr(hush, name) is not None


def test_type_checkers_read_the_names_from_where_they_come():
    """The imports that only they see, and the table by which a name is found when it is used."""
    tree = ast.parse(Path(hush.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == hush._HOME
    assert sorted(seen) == sorted(hush.__all__)


def test_the_names_are_listed_and_no_other_is_found():
    assert set(NAMES) <= set(dir(hush))
    with pytest.raises(AttributeError, match="'hush' has no attribute 'Clipp'"):
        _ = hush.Clipp
