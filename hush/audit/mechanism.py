"""What trials of a scheme's own code, with one client (or one record) and without it, show of its guarantee."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from hush.audit import chunks
from hush.audit.bounds import Floats, gaussian_bound, lower_bound
from hush.audit.chunks import AnyWorlds, Say, Spread, threads
from hush.audit.noise import of_noise
from hush.audit.records import RecordWorlds
from hush.audit.trials import Trials
from hush.audit.worlds import Worlds
from hush.core.packing import FLOATS
from hush.core.scheme import Scheme
from hush.errors import Mistake
from hush.models.workers import alone
from hush.privacy.facts import Finding
from hush.random.seeds import SecretSeed

SIZE = 32  # numbers of an update
COHORT = 4
OPEN = 4000  # trials of a scheme without noise
FEW = 300  # trials of all steps of a trainer that protects records
MOST = 2**20  # the largest update that is tried, for stages that refuse shorter ones
WIDE = 1024  # numbers that an adversary sees of a trial, up to which the best linear test is learned
SUMS, LARGE = 4, 100  # trials of whole sums, of so many clients at most
BULK = 2**25  # numbers of whole sums at most, a gigabyte: of large models fewer trials, then fewer clients
MEDIAN = 0.6745  # of the absolute value of a normal number
TIED = 0.05  # of scores that are alike: beyond, integers are not nearly normal
NORMAL = "the scores are normal"


@dataclass(frozen=True)
class Audit:
    """What was found, of how many trials in each world; `wrong` says, in sentences, what else is not as it should be.

    An alarm is a proof, at the confidence that was asked for, that what hush states is not so, or what the finding
    assumes is not. No alarm is no proof.
    """

    findings: tuple[Finding, ...]
    wrong: tuple[str, ...]
    trials: int

    @property
    def alarms(self) -> tuple[str, ...]:
        """What does not hold, in a sentence each."""
        return (*(_alarm(one) for one in self.findings if one.alarm), *self.wrong)

    @property
    def holds(self) -> bool:
        """Whether the trials agree with what is stated."""
        return not self.alarms


def mechanism(
    scheme: Scheme,
    clients: int = 6000,
    *,
    size: int | None = None,
    delta: float = 1e-5,
    trials: int = 20_000,
    confidence: float = 0.99,
    seed: int = 0,
    spread: Spread = threads,
    say: Say | None = None,
) -> Audit:
    """Attack the scheme's client and server code, `trials` times in each world; `clients` are registered.

    `spread`: who runs the trials, hush.audit.chunks.threads or hush.audit.chunks.cores; they are the same trials.
    `size`: of an update in use. If given, whole sums of such updates are tried as well, whether they wrap.

    A client is known to be drawn: no guarantee here counts on sampling. Epsilon is of one trial: two rounds, the second
    with dropouts where the scheme allows for them, or all rounds of a public schedule. The attacker rehearses a quarter
    of the trials, and learns from them the best linear test of what its view sees. All findings together are wrong with
    a probability of 1 - confidence at most.
    """
    if trials < 100:
        raise Mistake(f"trials={trials} are too few: take 20,000 or more")
    if not 0 < confidence < 1:
        raise Mistake(f"confidence={confidence:g} must lie between 0 and 1: take 0.99")
    if scheme.baseline:
        raise Mistake("nothing travels in this scheme: there is nothing to audit")
    scheme, secret, wrong = _bounded(scheme), SecretSeed.simulated(seed), list[str]()
    with alone():  # as the trials themselves: the last bits do not depend on the number of cores
        if scheme.trainer.level == "record":
            found = _records(scheme, clients, trials, delta, confidence, secret, spread, say)
        else:
            worlds = _worlds(scheme, clients)
            trials = trials if scheme.private else min(trials, OPEN)  # what no noise hides shows at once
            share = (1 - confidence) / (2 * len(worlds.views) + 3)
            present, found = _distinguished(worlds, trials, delta, share, secret, spread, say)
            if scheme.source is not None:
                found += of_noise(worlds, present, delta, share, secret)
                wrong += [] if size is None else _of_sums(scheme, size, clients, share, secret)
    return Audit(tuple(found), tuple(wrong), trials)


def _records(
    scheme: Scheme,
    clients: int,
    trials: int,
    delta: float,
    confidence: float,
    secret: SecretSeed,
    spread: Spread,
    say: Say | None,
) -> list[Finding]:
    """Of one step, which are many trials in one; and of all steps of a round, a few."""
    short = replace(scheme, trainer=scheme.trainer.shortest())
    share = (1 - confidence) / 4
    _, found = _distinguished(RecordWorlds(short, SIZE, clients), trials, delta, share, secret, spread, say)
    if short == scheme:
        return found
    _, whole = _distinguished(RecordWorlds(scheme, SIZE, clients), min(trials, FEW), delta, share, secret, spread, say)
    return [*found, *(replace(one, attack=f"{one.attack}, all steps") for one in whole)]


def _distinguished(
    worlds: AnyWorlds,
    trials: int,
    delta: float,
    miss: float,
    secret: SecretSeed,
    spread: Spread,
    say: Say | None,
) -> tuple[Trials, list[Finding]]:
    """What is seen where the client takes part, and how well each view distinguishes that from its other world."""
    stated, others = worlds.stated(delta), {view: worlds.absent(view) for view in worlds.views}
    floats = worlds.scheme.specs(worlds.size)[-1].form == FLOATS
    needed = [worlds.present, *dict.fromkeys(others.values())]
    runs = chunks.seen(worlds, needed, trials, secret, spread, say)
    found = []
    for view, other in others.items():
        present, absent = _scores(runs[worlds.present].views[view], runs[other].views[view])
        what = (view, stated[view])
        shown = lower_bound(present, absent, delta, 1 - miss).epsilon
        found.append(Finding("distinguisher", *what, shown, delta, 1 - miss, None, _COUNTED))
        if stated[view] is not None:
            # Signs that hardly ever change are no sign of missing noise; floats that do not change are.
            fits = floats or max(_commonest(present), _commonest(absent)) <= TIED
            shown = gaussian_bound(present, absent, delta, 1 - miss) if fits else 0.0
            found.append(Finding("normal fit", *what, shown, delta, 1 - miss, NORMAL, _FITTED))
    return runs[worlds.present], found


_COUNTED = (
    "a few rounds of the scheme's own code, many times with one client (or record) that is known to be drawn and many"
    " times without it; the errors of the best linear test were counted"
)
_FITTED = "in the same rounds, the distance of the test's scores with the client and without it, in deviations"


def _commonest(scores: Floats) -> float:
    """The fraction of scores that are the most frequent one, or as near to it as a product's rounding."""
    ranked = np.sort(scores)
    steps = np.flatnonzero(np.diff(ranked) > 1e-9 * np.abs(ranked).max()) + 1
    return float(np.diff([0, *steps, len(ranked)]).max()) / len(ranked)


def _bounded(scheme: Scheme) -> Scheme:
    """Without what a client does to its update before it is bounded: a guarantee holds for every update."""
    if scheme.source is None:
        return scheme
    specs = scheme.specs(MOST)
    first = next(n for n, spec in enumerate(specs[1:]) if spec.l2 < math.inf)
    return replace(scheme, stages=scheme.stages[first:])


def _worlds(scheme: Scheme, clients: int) -> Worlds:
    """Of the shortest update that the stages take, a power of two, and the smallest cohort that can be combined."""
    size, wrong = SIZE, Mistake("")
    while size <= MOST:
        try:
            least = scheme.specs(size)[-1].least
            return Worlds(scheme, size, max(COHORT if scheme.private else 1, least), clients)
        except Mistake as mistake:
            size, wrong = 2 * size, mistake
    raise wrong


def _scores(present: Tensor, absent: Tensor) -> tuple[Floats, Floats]:
    """How much what is seen speaks for the client, by a test that the first quarter of the trials chose."""
    known = len(present) // 4
    ours, theirs = present[:known], absent[:known]
    test = ours.mean(0) - theirs.mean(0)
    if present.shape[1] <= WIDE:
        whole = torch.cat([ours - ours.mean(0), theirs - theirs.mean(0)])
        spread = whole.T @ whole / len(whole)
        least = 1e-9 * float(spread.diagonal().mean()) + 1e-30
        test = torch.linalg.solve(spread + least * torch.eye(len(spread), dtype=spread.dtype), test)
    return (present[known:] @ test).numpy(), (absent[known:] @ test).numpy()


def _of_sums(scheme: Scheme, size: int, clients: int, miss: float, secret: SecretSeed) -> Iterator[str]:
    """Whether integers of a whole cohort that agree add up, or are more than the modulus holds."""
    if scheme.specs(size)[-1].form.modulus is None:
        return
    cohort = max(COHORT, min(LARGE, round(scheme.sampling.cohort(clients)), BULK // size))
    worlds, trials = Worlds(scheme, size, cohort, clients), max(1, min(SUMS, BULK // (size * cohort)))
    # Of one draw for all numbers: where the sum wraps they are off by the modulus, which is many deviations.
    noise = worlds.seen(worlds.present, trials, secret, others=1.0).noise[0]
    deviation = float(noise.abs().median()) / MEDIAN
    if float(noise.mean(0).abs().max()) * math.sqrt(trials) > float(ndtri(1 - miss / (2 * size))) * deviation:
        yield (
            f"the sum of {worlds.cohort} clients that agree is not what they sent: it wraps around the modulus, take"
            " more bits"
        )


def _alarm(found: Finding) -> str:
    shown = "without limit" if found.shown == math.inf else f"at least {found.shown:.2f}"
    assumed = f", if {found.assumes}" if found.assumes else ""
    return (
        f"{found.attack}, {found.view} view: epsilon is stated as {found.stated:.2f} and is {shown}{assumed}"
        f" (confidence {found.confidence:.4g})"
    )
