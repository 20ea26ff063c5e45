"""The public names: a change of them is a change of the interface, made here too."""

import hush

NAMES = """Aborted AdaptiveClip All Average BitVote Clip Coarse Coins CorrelatedNoise Dpsgd Engine Exact Fixed
FixedPoint IntegerNoise Ledger Local Loopback Mistake Momentum Noise Once Only Poisson PublicSeed Qsgd Quantise
RandomK Report Rotate Samples Scheme SecretSeed SecureSum Sense ServerNoise Sgd Sign SignStep Sparse
Split State Stay Sum Task TopFeedback TopK TwoBit Vote Weigh evaluate load partition rounds samples
scheme secured""".split()


def test_the_list_of_public_names():
    assert sorted(hush.__all__) == sorted(NAMES)
    for name in NAMES:
        assert getattr(hush, name) is not None
