"""The public names: a change of them is a change of the interface, made here too."""

import hush

NAMES = """Aborted AdaptiveClip All Average Clip Dpsgd Engine Fixed Ledger Local Loopback Mistake Noise Only Poisson
PublicSeed RandomK Report Samples Scheme SecretSeed Sgd Sign SignStep Sparse Split State Task TopK Vote Weigh
evaluate load partition rounds samples scheme""".split()


def test_the_list_of_public_names():
    assert sorted(hush.__all__) == sorted(NAMES)
    for name in NAMES:
        assert getattr(hush, name) is not None
