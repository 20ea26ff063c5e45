"""Slow twins, written from the papers' pseudocode: the oracles of the fast code.

One client after the other, an ordinary copy of the model, `.backward()`, float64, and what does not
train is put back after each step. The algorithms are numbered as in the version with Algorithms 1 to 6.
"""

import copy
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hush.catalogue.values import Settings
from hush.core.task import Task
from hush.data.samples import Samples
from hush.parts.stages import Sense
from hush.privacy.poisson_binomial import spread
from reference import twobit
from reference.draws import Draws
from reference.records import Client, dpsgd


@dataclass(frozen=True)
class Setting:
    """The paper's symbols: eta = k.rate, T_gd = k.steps, |B| = k.batch, T_init = k.probe, r = k.ratio."""

    task: Task
    k: Settings
    draws: Draws
    rounds: int
    S: float
    sigma: float
    # What each client sent in each round of the fast code, where a scheme chooses among numbers that may be equal.
    sent: dict[tuple[int, int], Tensor] | None = None

    @property
    def n(self) -> int:
        return sum(p.numel() for p in self.task.model.parameters())

    @property
    def K(self) -> int:
        return math.floor(self.k.ratio * self.n)


def vector(model: nn.Module) -> Tensor:
    """All weights of a model in a row."""
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])


def gradient(s: Setting, w: Tensor, batch: Samples) -> Tensor:
    """nabla f(B; w)."""
    model = copy.deepcopy(s.task.model).double()
    place = 0
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(w[place : place + p.numel()].reshape(p.shape))
            place += p.numel()
    s.task.loss(model(batch.inputs.double()), batch.targets).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def sgd(s: Setting, w: Tensor, batches: list[Samples]) -> Tensor:
    """Algorithm 5."""
    for batch in batches:
        w = w - s.k.rate * gradient(s, w, batch)
    return w


def top_k_sgd(s: Setting, w: Tensor, batches: list[Samples], T: list[int]) -> Tensor:
    """Algorithm 2: after each step, what is not in T is put back."""
    others = [i for i in range(len(w)) if i not in set(T)]
    before = w.clone()
    for batch in batches:
        w = w - s.k.rate * gradient(s, w, batch)
        w[others] = before[others]
    return w


def local(s: Setting, t: int, client: int, w: Tensor, T: list[int] | None, free: bool) -> Tensor:
    """One client's training: the update at the coordinates T, or at all."""
    rows = s.task.split.rows_of(client)
    chosen = s.draws.batches(rows, s.k.batch, s.k.steps, t, client)
    batches = [s.task.train.rows(index) for index in chosen]
    if T is None:
        return sgd(s, w, batches) - w
    trained = sgd(s, w, batches) if free else top_k_sgd(s, w, batches, T)
    return (trained - w)[T]


def clip(update: Tensor, S: float) -> Tensor:
    """Algorithm 3, line 26."""
    return update / max(1.0, float(update.norm()) / S)


def protected(s: Setting, t: int, updates: dict[int, Tensor], S: float, size: int) -> Tensor:
    """The sum of G(clip(update), S sigma / sqrt|K|) over the cohort; the server's noise if it is empty."""
    if not updates:
        return S * s.sigma * s.draws.noise(size, t, "server")
    total = torch.zeros(size, dtype=torch.float64)
    for client, update in updates.items():
        share = S * s.sigma / math.sqrt(len(updates))
        total += clip(update, S) + share * s.draws.noise(size, t, client)
    return total


def fl_std(s: Setting) -> Tensor:
    """Algorithm 4."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        cohort = s.draws.cohort(t)
        everything = sum(len(s.task.split.rows_of(j)) for j in cohort)
        moved = w.clone()
        for client in cohort:
            weight = len(s.task.split.rows_of(client)) / everything
            moved += weight * local(s, t, client, w, None, False)
        w = moved
    return w


def fl_std_dp(s: Setting) -> Tensor:
    """Algorithm 6."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        updates = {client: local(s, t, client, w, None, False) for client in s.draws.cohort(t)}
        w = w + protected(s, t, updates, s.S, s.n) / s.draws.expected
    return w


def fixed_set(s: Setting, T: list[int], free: bool, private: bool) -> Tensor:
    """Algorithms 1 and 3 with a given set T: only its weights travel, in both directions."""
    w_0 = vector(s.task.model)
    w = w_0
    for t in range(1, s.rounds + 1):
        down = w[T]
        updates = {}
        for client in s.draws.cohort(t):
            received = w_0.clone()
            received[T] = down
            updates[client] = local(s, t, client, received, T, free)
        moved = w_0.clone()
        moved[T] = w[T] + mean(s, t, updates, len(T), private)
        w = moved
    return w


def fresh_set(s: Setting, free: bool, private: bool) -> Tensor:
    """FL-BASIC and FL-BAS-2: a new random set each round; the whole model travels down."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        T = s.draws.coordinates(s.n, s.K, t)
        updates = {client: local(s, t, client, w, T, free) for client in s.draws.cohort(t)}
        w = w.clone()
        w[T] += mean(s, t, updates, len(T), private)
    return w


def mean(s: Setting, t: int, updates: dict[int, Tensor], size: int, private: bool) -> Tensor:
    """Over |K|; with privacy over the expected |K|, which for cohorts of one size is the same."""
    if private:
        return protected(s, t, updates, s.S, size) / s.draws.expected
    total = torch.zeros(size, dtype=torch.float64)
    for update in updates.values():
        total += update / len(updates)
    return total


def accumulated(s: Setting, batch: Samples) -> Tensor:
    """The absolute gradients, summed over T_init SGD iterations from w_0 on one batch."""
    w = vector(s.task.model)
    total = torch.zeros_like(w)
    for _ in range(s.k.probe):
        g = gradient(s, w, batch)
        total += g.abs()
        w = w - s.k.rate * g
    return total


def best(scores: Tensor, count: int) -> list[int]:
    """The coordinates of the `count` largest scores; of equal ones the first."""
    order = sorted(range(len(scores)), key=lambda i: (-float(scores[i]), i))
    return sorted(order[:count])


def top_k(s: Setting) -> list[int]:
    """The set T by public data (section 3.1)."""
    return best(accumulated(s, s.task.public), s.K)


def voted(s: Setting, sigma: float) -> list[int]:
    """The set T by a noisy vote (section 3.2.3), held as round 0; a 0/1 vector of K ones has norm sqrt(K)."""
    ballots = {}
    for client in s.draws.cohort(0):
        rows = s.draws.ballot(s.task.split.rows_of(client), s.k.batch, client)
        ballots[client] = torch.zeros(s.n, dtype=torch.float64)
        ballots[client][best(accumulated(s, s.task.train.rows(rows)), s.K)] = 1.0
    total = torch.zeros(s.n, dtype=torch.float64)
    for client, ballot in ballots.items():
        share = math.sqrt(s.K) * sigma / math.sqrt(len(ballots))
        total += ballot + share * s.draws.noise(s.n, 0, client)
    return best(total, s.K)


def adaptive(s: Setting, T: list[int], quantile: float, rate: float, weight: float) -> tuple[Tensor, float]:
    """FL-TOP-DP whose bound follows a quantile of the norms (Andrew et al. 2021, Algorithm 1).

    The vote on the norm is one more number, c (b - 1/2) with c = weight * S, under the same noise.
    """
    w_0 = vector(s.task.model)
    w, S = w_0, s.S
    for t in range(1, s.rounds + 1):
        cohort, c = s.draws.cohort(t), weight * S
        whole = math.sqrt(S**2 + (c / 2) ** 2)
        total = torch.zeros(len(T) + 1, dtype=torch.float64)
        for client in cohort:
            update = local(s, t, client, w, T, False)
            b = 1.0 if float(update.norm()) <= S else 0.0
            total[:-1] += clip(update, S)
            total[-1] += c * (b - 0.5)
            total += whole * s.sigma / math.sqrt(len(cohort)) * s.draws.noise(len(T) + 1, t, client)
        fraction = float(total[-1]) / c / s.draws.expected + 0.5
        moved = w.clone()
        moved[T] += total[:-1] / s.draws.expected
        w, S = moved, S * math.exp(-rate * (min(1.0, max(0.0, fraction)) - quantile))
    return w, S


def bound(s: Setting, T: list[int] | None, fresh: bool, free: bool, matrix: Tensor | None = None) -> float:
    """S by the papers' rule (section 4): the norm of one local training's update on the public batch.

    With a fresh set each round the median over 100 sets, which have the names -1 to -100. `matrix`: what is sensed.
    """
    rows = torch.arange(len(s.task.public))
    norms = []
    for t in range(-1, -101, -1) if fresh else [-1]:
        chosen = s.draws.batches(rows, s.k.batch, s.k.steps, t, 0)
        batches = [s.task.public.rows(index) for index in chosen]
        w = vector(s.task.model)
        places = s.draws.coordinates(s.n, s.K, t) if fresh else T
        trained = sgd(s, w, batches) if free or places is None else top_k_sgd(s, w, batches, places)
        sent = (trained - w) if places is None else (trained - w)[places]
        norms.append(float((sent if matrix is None else matrix @ sent).norm()))
    return statistics.median(norms)


def random_k(s: Setting) -> list[int]:
    """FL-BAS-3 and FL-BAS-4: one random set for the whole training."""
    return s.draws.coordinates(s.n, s.K, 0)


def head(s: Setting) -> list[int]:
    """FL-HEAD: the weights and biases of the model's last layer, 10 outputs of 12 inputs each."""
    return list(range(s.n - 10 * 12 - 10, s.n))


def protected_records(s: Setting, t: int, client: int, w: Tensor) -> Tensor:
    """A client of the second paper's Algorithms 4 and 5: DPSGD on its own records."""
    k = s.k
    return dpsgd(Client(s.task, client, t, s.draws.seed, k.rate, k.steps, k.batch, s.S, s.sigma, k.batches), w)


def fl_sign(s: Setting, private: bool) -> Tensor:
    """The second paper's Algorithms 3 and 4: signs up, a step of gamma along the sign of their sum."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        total, cohort = torch.zeros(s.n, dtype=torch.float64), s.draws.cohort(t)
        for client in cohort:
            update = protected_records(s, t, client, w) if private else local(s, t, client, w, None, False)
            total += signs(update, s.draws.coins("zero", t, client))
        if cohort:
            w = w + s.k.gamma * signs(total, s.draws.coins("tie", t))
    return w


def signs(values: Tensor, coins: Callable[[int], list[int]]) -> Tensor:
    """+1 or -1; the zeros take the coins in their order."""
    zeros = [i for i, value in enumerate(values.tolist()) if value == 0]
    found = torch.tensor([1.0 if value > 0 else -1.0 for value in values.tolist()], dtype=torch.float64)
    for i, coin in zip(zeros, coins(len(zeros)), strict=True):
        found[i] = 1.0 if coin else -1.0
    return found


def fl_standard_dp(s: Setting) -> Tensor:
    """The second paper's Algorithm 5: the plain mean."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        updates = [protected_records(s, t, client, w) for client in s.draws.cohort(t)]
        w = w + sum(updates) / len(updates) if updates else w
    return w


def centralized(s: Setting) -> Tensor:
    """SGD on the data of one place, which is client 0 of a population of one."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        w = w + local(s, t, s.draws.lone(t), w, None, False)
    return w


def dp_fedavg(s: Setting) -> Tensor:
    """DP-FedAvg (McMahan et al. 2018): clipped updates, and the server adds the integer noise to their sum."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        noise = s.S * s.sigma * s.draws.noise(s.n, t, "server")
        total = noise + sum(clip(local(s, t, client, w, None, False), s.S) for client in s.draws.cohort(t))
        w = w + total / s.draws.expected
    return w


def hush_trusted(s: Setting) -> Tensor:
    """Clipped updates by turns; row t of s C^-1 Z goes to their sum, C the square root of the prefix sums.

    The entries of C are binom(2k, k) / 4^k, none from the rounds of a pass on.
    """
    b, w = s.draws.turns, vector(s.task.model)
    c = [math.comb(2 * k, k) / 4**k for k in range(b)]
    C = torch.tensor([[c[i - j] if 0 <= i - j < b else 0.0 for j in range(s.rounds)] for i in range(s.rounds)]).double()
    Z = torch.stack([s.draws.kept(s.n, t) for t in range(1, s.rounds + 1)])
    noise = s.sigma * s.S * float(C[:b, 0].norm()) * torch.linalg.inv(C) @ Z
    for t in range(1, s.rounds + 1):
        updates = [clip(local(s, t, client, w, None, False), s.S) for client in s.draws.cohort(t)]
        w = w + (sum(updates) + noise[t - 1]) / s.draws.expected
    return w


def two_bit(s: Setting) -> Tensor:
    """The third paper's Algorithms 1 and 2; a round of fewer than p - 1 nodes is none."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        cohort = s.draws.cohort(t)
        if len(cohort) < s.k.precision - 1:
            continue
        updates = [local(s, t, client, w, None, False).tolist() for client in cohort]
        summed = twobit.two_bit(updates, s.draws.seats(t, len(cohort)), s.k.bound, s.k.precision)
        w = w + torch.tensor(summed, dtype=torch.float64) / len(cohort)
    return w


def two_bit_dp(s: Setting) -> Tensor:
    """Of each clipped number x, 3 coins of probability 1/2 + kappa x; fair ones for the places that nobody took."""
    w, coins, edge = vector(s.task.model), 3, 1 / 16
    room = s.draws.expected if s.draws.rate is None else s.draws.expected + 6 * math.sqrt(s.draws.expected) + 6
    places = math.ceil(round(room, 9))
    kappa = 1 / (s.sigma * s.S * math.sqrt(coins) * spread(places, edge))
    for t in range(1, s.rounds + 1):
        cohort = s.draws.cohort(t)
        total = s.draws.fair(s.n, coins * (places - len(cohort)), t)
        for client in cohort:
            bias = (kappa * clip(local(s, t, client, w, None, False), s.S)).clamp(-edge, edge)
            total += s.draws.heads(bias, coins, t, client)
        w = w + total / (2 * coins * kappa) / s.draws.expected
    return w


def standalone(s: Setting) -> Tensor:
    """Each client goes on from its own weights in the rounds that it takes part in; all of them in a row."""
    own = {client: vector(s.task.model) for client in range(s.task.clients)}
    for t in range(1, s.rounds + 1):
        for client in s.draws.cohort(t):
            own[client] = own[client] + local(s, t, client, own[client], None, False)
    return torch.cat(list(own.values()))


def qsgd(s: Setting) -> Tensor:
    """Alistarh et al. (2017): four bits, buckets of 512, scaled by the largest number of the bucket."""
    w = vector(s.task.model)
    for t in range(1, s.rounds + 1):
        cohort = s.draws.cohort(t)
        total = torch.zeros(s.n, dtype=torch.float64)
        for client in cohort:
            update, draws = local(s, t, client, w, None, False), s.draws.uniform("qsgd", t, client)
            for first in range(0, s.n, 512):
                part = update[first : first + 512]
                scale = part.abs().max()
                for i, value in enumerate(part, first):
                    level = float(value / scale) * 7
                    total[i] += scale * (math.floor(level) + (draws() < level - math.floor(level))) / 7
        w = w + total / len(cohort) if cohort else w
    return w


def largest(whole: Tensor, k: int, sent: Tensor) -> Tensor:
    """The coordinates that were sent, if they are the k largest numbers up to 1e-5 of the largest.

    Pixels of few rows are often equal, and so are their weights' numbers: sums in another order choose another one.
    """
    chosen, size = sent != 0, whole.abs()
    margin = 1e-5 * size.max()
    assert chosen.sum() <= k
    assert size[~chosen].max() <= margin + (size[chosen].min() if chosen.sum() == k else 0.0)
    return chosen


def top_k_ef(s: Setting) -> Tensor:
    """Stich et al. (2018), Algorithm 1 with the k largest numbers: what is not sent is kept for the next time.

    Given the same choice of the largest, which is checked with a margin.
    """
    assert s.sent is not None
    w = vector(s.task.model)
    kept = {client: torch.zeros(s.n, dtype=torch.float64) for client in range(s.task.clients)}
    for t in range(1, s.rounds + 1):
        cohort = s.draws.cohort(t)
        total = torch.zeros(s.n, dtype=torch.float64)
        for client in cohort:
            whole = kept[client] + local(s, t, client, w, None, False)
            places = largest(whole, s.K, s.sent[t, client])
            kept[client] = whole.clone()
            kept[client][places] = 0
            total[places] += whole[places]
        w = w + total / len(cohort) if cohort else w
    return w


def fl_cs(s: Setting, private: bool) -> Tensor:
    """FL-CS: rows of a cosine transform of each chunk; momentum of what was sensed, and one recovery a round.

    The recovery itself is Sense's own: tests/stages/test_sense.py has its twin.
    """
    w, sense = vector(s.task.model), Sense(s.k.ratio, s.k.chunks, s.k.seed)
    matrix = s.draws.sensed(s.n, s.K, s.k.chunks, s.k.seed)
    optimizer = torch.zeros(s.K, dtype=torch.float64)
    for t in range(1, s.rounds + 1):
        updates = {client: matrix @ local(s, t, client, w, None, False) for client in s.draws.cohort(t)}
        if updates or private:
            optimizer = 0.9 * optimizer + mean(s, t, updates, s.K, private)
            w = w + 0.35 * sense.recover(optimizer, s.n).double()
    return w


TWINS: dict[str, Callable[[Setting], Tensor]] = {
    "fl-std": fl_std,
    "fl-std-dp": fl_std_dp,
    "hush": fl_std_dp,  # on features, with a server's step that Settings leaves out
    "hush-tiny": fl_std_dp,
    "hush-once": fl_std_dp,
    "hush-trusted": hush_trusted,
    "fl-top": lambda s: fixed_set(s, top_k(s), free=False, private=False),
    "fl-top-dp": lambda s: fixed_set(s, top_k(s), free=False, private=True),
    "fl-top-bis": lambda s: fixed_set(s, top_k(s), free=True, private=False),
    "fl-top-bis-dp": lambda s: fixed_set(s, top_k(s), free=True, private=True),
    "fl-basic": lambda s: fresh_set(s, free=False, private=False),
    "fl-basic-dp": lambda s: fresh_set(s, free=False, private=True),
    "fl-bas-2": lambda s: fresh_set(s, free=True, private=False),
    "fl-bas-2-dp": lambda s: fresh_set(s, free=True, private=True),
    "fl-bas-3": lambda s: fixed_set(s, random_k(s), free=False, private=False),
    "fl-bas-3-dp": lambda s: fixed_set(s, random_k(s), free=False, private=True),
    "fl-bas-4": lambda s: fixed_set(s, random_k(s), free=True, private=False),
    "fl-head": lambda s: fixed_set(s, head(s), free=False, private=False),
    "fl-head-dp": lambda s: fixed_set(s, head(s), free=False, private=True),
    "fl-standard": fl_std,
    "fl-standard-dp": fl_standard_dp,
    "fl-sign": lambda s: fl_sign(s, private=False),
    "fl-sign-dp": lambda s: fl_sign(s, private=True),
    "centralized": centralized,
    "dp-fedavg": dp_fedavg,
    "two-bit": two_bit,
    "two-bit-dp": two_bit_dp,
    "standalone": standalone,
    "qsgd": qsgd,
    "top-k-ef": top_k_ef,
    "fl-cs": lambda s: fl_cs(s, private=False),
    "fl-cs-dp": lambda s: fl_cs(s, private=True),
    "fl-bas-4-dp": lambda s: fixed_set(s, random_k(s), free=True, private=True),
}
