"""The machine in words, its kind of CPU, and what limits its kernels."""

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What the contenders' arithmetic and key streams may use.
FEATURES = (
    *("avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16"),
    *("aes", "vaes", "vpclmulqdq", "gfni", "sha_ni", "asimd", "sve", "bf16"),
)
WIDEST = {"avx512f": "avx512", "avx2": "avx2", "sve": "sve", "asimd": "neon"}  # the first one that is there
RULING = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")  # of torch: they make a kind
LIMITS = (*RULING, "DNNL_MAX_CPU_ISA", "MKL_CBWR", "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "XLA_FLAGS")
# All libraries of all contenders held to the instructions of another processor.
KERNELS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    }
}


def processor(table: str) -> dict[str, str]:
    """The facts of the first processor in /proc/cpuinfo."""
    pairs = (line.partition(":")[::2] for line in table.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, value in pairs}


def features(facts: Mapping[str, str]) -> list[str]:
    """Those that matter here."""
    flags = facts.get("flags", facts.get("Features", "")).split()
    return [name for name in FEATURES if name in flags]


def limits(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that limit kernels, as they are set."""
    return {name: environment[name] for name in LIMITS if environment.get(name)}


def kind(facts: Mapping[str, str], limited: Mapping[str, str]) -> str:
    """The kind of CPU and kernels, as a file's name: amd-epyc-26-2-avx512, or amd-epyc-26-2-avx512-as-avx2."""
    widest = next((word for name, word in WIDEST.items() if name in features(facts)), "base")
    words = [facts.get("model name", platform.machine()), facts.get("cpu family", ""), facts.get("model", ""), widest]
    ruled = {name: limited[name].lower() for name in RULING if name in limited}
    if len(ruled) == len(RULING) and len(set(ruled.values())) == 1:
        words += ["as", ruled[RULING[0]]]
    elif ruled:
        words += ["as", *(f"{name} {value}" for name, value in ruled.items())]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def here() -> str:
    """The kind of this machine, with its kernels as they are now."""
    return kind(processor(Path("/proc/cpuinfo").read_text()), limits(os.environ))


def machine() -> dict[str, str]:
    """The machine in words."""
    facts = processor(Path("/proc/cpuinfo").read_text())
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, held, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        caches.append(f"L{level} {held.lower()} {size}")
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    name = facts.get("model name", platform.machine())
    family = f", family {facts['cpu family']}, model {facts['model']}" if "cpu family" in facts else ""
    limited = ", ".join(f"{name}={value}" for name, value in limits(os.environ).items())
    return {
        "CPU": f"{name}{family}",
        "features": ", ".join(features(facts)) or "none of note",
        "kernels": f"limited by {limited}" if limited else "not limited",
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} usable by the bench",
        "caches, of the first core": ", ".join(caches) or "unknown",
        "memory": f"{int(memory.split()[1]) / 2**20:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before the run": f"{os.getloadavg()[0]:.2f}",
    }


def commit() -> str:
    """The tree's commit, with a plus if it was changed since; nothing outside a checkout."""
    ask = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
    found = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()
