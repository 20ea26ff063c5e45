"""Noise that is correlated over the rounds, so that most of it cancels in the model: what it hides, and what is left.

A model is, up to what the server's step does, the running sum of the rounds' sums x_1, x_2, ... Where each client
takes part in one round of a pass, noise that is new in each round adds up in the model, though no client needs more
than one round's worth of it. So the noise of a round takes back a part of that of the rounds before.

**The mechanism.** There are k passes of b rounds. A client has a turn p in 1..b, the same in every pass: it takes part
in the rounds p, p + b, p + 2b, ... C is lower-triangular and Toeplitz, and its first column c is that of the square
root of the prefix sums (Fichtenberger, Henzinger, Upadhyay 2023; Henzinger, Upadhyay, Upadhyay 2023), cut after b
entries (as Kalinin, Lampert 2024 cut it). Round t releases

    x_t + s (C^-1 z)_t,    z_1, z_2, ... independent standard normal vectors,    s = sigma |c| S,

where S bounds what one client adds to a sum. The running sums then have the noise s (A C^-1 z)_t, with A the prefix
sums. In one pass A C^-1 = C, so the last one has deviation sigma |c|^2 S, where |c|^2 is about 1.07 + ln(b) / pi.
Independent noise leaves sigma sqrt(b) S.

**What one client's data move.** All releases together are C^-1 (C x + s z): to know them is to know y = C x + s z,
round by round, since C is lower-triangular. Take one client and two worlds: in one its rounds get g_p, g_{p+b}, ...,
each of norm S at most, in the other they get nothing. Given the same y of the rounds before, the models are the same,
and with them whatever all other clients send. So the mean of y_t differs by (C g)_t, and by nothing else. Column p of
C ends before row p + b: the columns of a client's rounds have no row in common. Rows p to p + b - 1 are thus one
Gaussian release of (c_0 g_p, c_1 g_p, ...), a vector of norm at most |c| S that is settled in row p: the later rows
show the same g_p again, each under noise of its own. The multiplier is s / (|c| S) = sigma. Each further pass is one
more such release, of a g that may depend on all before it. Composed, also adaptively, k Gaussian releases of multiplier
sigma are one of sigma / sqrt(k): C has the sensitivity sqrt(k) |c| (Denisov, McMahan, Rush, Smith, Thakurta 2022, for
one pass and adaptive streams; Choquette-Choo, McMahan, Rush, Thakurta 2023, for several passes).

Guarantee: for adding or removing one client, who stays on the schedule and counts as zeros, every client pays one
Gaussian release of multiplier sigma for each of its rounds, and nothing for those of others. It holds against everyone
who sees all released sums and models and knows the schedule. It does not hold against the aggregator, who draws the
noise, keeps it for the rounds to come, and sees the sums without it; nor if a client has another turn in another pass,
or a round is gathered and released twice: then the columns of its rounds meet, and more is moved than sigma accounts
for.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hush.errors import Mistake
from hush.privacy.toeplitz import Floats, inverse, square_root


@dataclass(frozen=True)
class Correlation:
    """The square root of the prefix sums over `rounds` in `passes`, each client in one round of a pass, at its turn."""

    rounds: int
    passes: int = 1

    def __post_init__(self) -> None:
        if self.passes < 1 or self.rounds < 1 or self.rounds % self.passes:
            raise Mistake(f"rounds={self.rounds} must be a multiple of passes={self.passes}, and both at least 1")

    @property
    def cohorts(self) -> int:
        """b: the rounds of a pass, in each of which another part of the clients has its turn."""
        return self.rounds // self.passes

    @cached_property
    def column(self) -> Floats:
        """c: what one round adds to C x, from its own row on."""
        return square_root(self.cohorts)

    @property
    def length(self) -> float:
        """|c|: how far one participation moves C x, in units of S; s = sigma |c| S is the deviation of z."""
        return float(np.linalg.norm(self.column))

    @property
    def sensitivity(self) -> float:
        """How far one client moves C x in all its rounds together, in units of S: sqrt(k) |c|."""
        return math.sqrt(self.passes) * self.length

    @cached_property
    def weights(self) -> Floats:
        """Of C^-1: round t gets the noise s (weights[0] z_t + weights[1] z_{t-1} + ... + weights[t-1] z_1)."""
        return inverse(self.column, self.rounds)

    @property
    def spread(self) -> float:
        """Deviation of the noise of one round, the last, where it is largest, in units of sigma S: |c| |weights|."""
        return self.length * float(np.linalg.norm(self.weights))

    @cached_property
    def deviations(self) -> Floats:
        """Of the noise in the running sums after each round, in units of sigma S; of independent noise it is sqrt(t).

        |c| times the norms of the rows of A C^-1.
        """
        return self.length * np.sqrt(np.cumsum(np.cumsum(self.weights) ** 2))
