"""Who runs what, on how many cores, at which setting: the bench as a table."""

from dataclasses import dataclass, field, replace
from typing import Any

from workload import ROUNDS, SECURE


@dataclass(frozen=True)
class Contender:
    """One process that is measured. `setting` says in words how it was run.

    `rounds` are run in each turn, and at most `turns` turns. `threads` is for the math libraries (the number of
    cores if not given), `devices` for XLA. `launch` is a program of the environment that starts the worker. `before`:
    hush as it was at another commit. `longer`: a turn that is too short to measure may have more rounds.
    """

    name: str
    worker: str
    environment: str
    cores: int
    options: dict[str, Any]
    setting: str
    rounds: int = 1
    turns: int | None = None
    threads: int | None = None
    devices: int = 1
    launch: tuple[str, ...] = ()
    request: dict[str, Any] = field(default_factory=dict)
    before: bool = False
    longer: bool = True

    @property
    def key(self) -> str:
        """Its name with its cores, for the results."""
        return f"{self.name}, {self.cores} core{'s' if self.cores > 1 else ''}{', before' if self.before else ''}"


TWO = ("torchrun", "--nproc-per-node", "2")


def _hush(name: str, cores: int, setting: str = "as installed", rounds: int = 1, **options: Any) -> Contender:
    return Contender(f"hush {name}", "hush_", "hush", cores, options, setting, rounds)


def _loop(workload: str = "cnn", rounds: int = 1) -> Contender:
    words = "client after client, flat buffers, no privacy"
    return Contender("loop", "loop", "hush", 1, {"workload": workload}, words, rounds)


def _pfl(cores: int, rounds: int = 1, **options: Any) -> list[Contender]:
    one = Contender("pfl", "pfl_", "pfl", cores, options, f"one process, math threads {cores}", rounds)
    if cores == 1:
        return [one]
    words = "two worker processes (torchrun), math threads 1 each"
    return [one, Contender("pfl x 2", "pfl_", "pfl", cores, options, words, rounds, threads=1, launch=TWO)]


def _fedjax(cores: int, rounds: int = 1, old: bool = False, **options: Any) -> list[Contender]:
    name, environment = ("FedJAX jit, older JAX", "fedjax-04") if old else ("FedJAX jit", "fedjax")
    jit = Contender(name, "fedjax_", environment, cores, options, "backend jit, XLA's own threads", rounds)
    if cores == 1 or old:
        return [jit]
    words = "backend pmap over 2 XLA host devices"
    mapped = {**options, "backend": "pmap"}
    return [jit, Contender("FedJAX pmap", "fedjax_", environment, cores, mapped, words, rounds, devices=2)]


def _flower(nodes: int, cores: int, rounds: int = 1, turns: int = 3, **options: Any) -> Contender:
    words = f"Ray backend, num_cpus=1 per client: {cores} actor{'s' if cores > 1 else ''}; {nodes:,} nodes"
    options |= {"nodes": nodes}
    return Contender(f"Flower, {nodes:,} nodes", "flower_", "flower", cores, options, words, rounds, turns, threads=1)


def _cnn() -> list[Contender]:
    schemes = ("fl-std", "fl-std-dp", "fl-top-dp")
    mine = [_hush(name, cores, workload="cnn", scheme=name) for cores in (1, 2) for name in schemes]
    peak = Contender("matrix product", "peak", "hush", 1, {}, "torch.mm, 1024^3, float32", request={"gflops": True})
    peers = [*_pfl(2, workload="cnn"), *_fedjax(2, workload="cnn")]
    return [peak, _loop(), *mine, *peers, _flower(100, 2, workload="cnn"), _flower(6_000, 2, turns=2, workload="cnn")]


def _linear() -> list[Contender]:
    found = [_loop("linear", 20)]
    for cores in (1, 2):
        found.append(_hush("fl-std-dp", cores, rounds=50, workload="linear", scheme="fl-std-dp"))
        found += _pfl(cores, 10, workload="linear", private=True)
        for old in (False, True):
            found += _fedjax(cores, 10, old, workload="linear", private=True)
        found.append(_flower(100, cores, rounds=3, workload="linear", private=True))
    return found


def _head() -> list[Contender]:
    common: dict[str, Any] = {"workload": "cnn", "scheme": "fl-std-dp", "head": True}
    filling = _hush("head, cache filling", 1, "100 of 6,000 clients: nearly all are new", **common)
    held = _hush("head, cache holds", 1, "100 of 100 clients: all are known", 20, **common, clients=100)
    return [_loop(), replace(filling, longer=False), held]  # more rounds would find more clients known


def _population() -> list[Contender]:
    found = []
    for workload, scheme, rounds in (("linear", "fl-std-dp", 50), ("cnn", "fl-top-dp", 1)):
        for clients in (6_000, 10**6):
            options: dict[str, Any] = {"workload": workload, "scheme": scheme, "clients": clients, "shared": True}
            words = f"{clients:,} registered clients"
            found.append(_hush(f"{workload} {scheme}, {clients:,}", 1, words, rounds, **options))
    return found


def _recommended() -> list[Contender]:
    words = "experiments/frontier/hush.toml, features from the cache, each run begun anew"
    options = {"file": "hush.toml"}
    return [Contender("hush", "recommended_", "hush", cores, options, words, ROUNDS) for cores in (1, 2)]


def _medical() -> list[Contender]:
    schemes = ("fl-std-dp", "fl-top-dp")
    return [_hush(name, 1, workload="medical", scheme=name) for name in schemes]


def _secure() -> list[Contender]:
    run = "experiments/frontier/hush-secure.toml: all but the masks, which cancel; bytes of all messages"
    one = f"one sum of {SECURE['clients']} clients with every message, in one thread: {SECURE['size']:,} numbers"
    one += f" of {SECURE['bits']} bits"
    return [
        Contender("hush, integers", "recommended_", "hush", 2, {"file": "hush-secure.toml"}, run, ROUNDS),
        Contender("hush, secure sum", "secure_", "hush", 1, SECURE, one),
    ]


def _memory() -> list[Contender]:
    words = "one round of 1,000 of 6,000 clients, in a fresh process"
    schemes = ("fl-top-dp", "fl-std-dp")
    return [_hush(name, 2, words, workload="cnn", scheme=name, cohort=1000, warm=0) for name in schemes]


def _profile() -> list[Contender]:
    options = {"workload": "cnn", "scheme": "fl-top-dp"}
    words = "one round under torch.profiler"
    return [Contender("hush fl-top-dp", "hush_", "hush", 1, options, words, request={"profile": True})]


def paired(suite: str) -> list[Contender]:
    """A suite with each contender of hush right behind the same one of another commit."""
    found = []
    for one in SUITES[suite]:
        if one.name.startswith("hush") and not one.request:
            found.append(replace(one, before=True))
        found.append(one)
    return found


# Within a suite the contenders take turns.
SUITES = {
    "cnn": _cnn(),
    "linear": _linear(),
    "recommended": _recommended(),
    "medical": _medical(),
    "secure": _secure(),
    "head": _head(),
    "population": _population(),
    "memory": _memory(),
    "profile": _profile(),
}
ONCE = ("memory", "profile")  # one turn each, one process at a time
TITLES = {
    "cnn": "The paper's CNN of 1,663,370 weights: 100 of 6,000 clients, 10 images each, 5 full-batch SGD steps. Peers"
    " average plainly. fl-top-dp trains 0.5 % of the weights, which takes less arithmetic than `of the peak` counts.",
    "linear": "Softmax regression, 6,010 weights: 100 of 6,000 clients, 10 rows of 600 features each, 5 steps, each"
    " update clipped and noise added. pfl: its Gaussian mechanism, applied centrally. FedJAX has none: clipped in"
    " `client_final`, noise by hand, with the newest JAX and with an older one, which calls faster. Flower: its"
    " wrapper with fixed clipping at the server.",
    "recommended": "The recommended scheme on Fashion-MNIST: 60 rounds of about 300 of 6,000 clients on cached"
    " features.",
    "medical": "The papers' medical network, 7,280 - 200 - 200 - 1, of 1,496,601 weights: 100 of 5,010 clients with 24"
    " to 40 sparse rows each, 40 full-batch SGD steps, synthetic records. fl-top-dp trains 0.5 % of the weights.",
    "secure": "The recommended scheme with the secure sum of one server, 60 rounds of about 300 of 6,000 clients, and"
    " one such sum by itself. kB are per registered client, of the whole run, and protocol alone.",
    "head": "The CNN with only its last layer's 5,130 weights live, private. The frozen layers in front run once per"
    " image and stay in a cache.",
    "population": "A million registered clients against 6,000, the same cohort of 100 and the same data in memory.",
    "memory": "Peak memory of a cohort of 1,000 clients on the CNN, data included.",
    "profile": "Where a round of fl-top-dp on one core spends its time: [{kind}-profile.txt]({kind}-profile.txt).",
}
