"""The kind of a CPU: what it can do, and what its kernels are held to."""

import machine

FACTS = machine.processor(
    "processor\t: 0\nmodel name\t: AMD EPYC\ncpu family\t: 26\nmodel\t\t: 2\nflags\t\t: fpu avx2 fma avx512f vaes\n\n"
    "processor\t: 1\nmodel name\t: another\n"
)


def test_kind_by_processor():
    assert machine.features(FACTS) == ["avx2", "fma", "avx512f", "vaes"]
    assert machine.kind(FACTS, {}) == "amd-epyc-26-2-avx512"
    assert machine.kind({**FACTS, "flags": "avx2 fma"}, {}) == "amd-epyc-26-2-avx2"


def test_kind_by_limits():
    held = machine.limits({**machine.KERNELS["avx2"], "HOME": "/"})
    assert held == machine.KERNELS["avx2"]
    assert machine.kind(FACTS, held) == "amd-epyc-26-2-avx512-as-avx2"
    part = machine.limits({"ATEN_CPU_CAPABILITY": "avx2"})
    assert machine.kind(FACTS, part) == "amd-epyc-26-2-avx512-as-aten-cpu-capability-avx2"
    others = machine.limits({"OPENBLAS_CORETYPE": "Haswell"})  # not torch's: written down, and the same kind
    assert others
    assert machine.kind(FACTS, others) == "amd-epyc-26-2-avx512"


def test_words_of_this_machine(monkeypatch):
    for name in machine.LIMITS:
        monkeypatch.delenv(name, raising=False)
    assert machine.machine()["kernels"] == "not limited"
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert machine.machine()["kernels"] == "limited by ATEN_CPU_CAPABILITY=avx2"
    assert "avx2" in machine.here()
