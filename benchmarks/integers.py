"""What bits cost: epsilon of integer noise beside continuous noise, at the paper's setting.

    python benchmarks/integers.py [--kind skellam|gaussian] [--size D] [--clients N]

One line for each number of bits, on the finest grid on which the sum fits. "epsilon" is that of the noise of the
paper, 1.54 times the clip; "noise" is what the continuous figure takes instead, and "more" what that is above 1.54.
"""

import argparse
import math
from bisect import bisect_left

from hush.privacy.accountants import Release
from hush.privacy.accountants import epsilon as continuous
from hush.privacy.integers import KINDS, finest, on_grid
from hush.privacy.subsampled import Term, epsilon

NOISE, CLIP, RATE, ROUNDS, DELTA = 1.54, 0.61, 1 / 60, 200, 1e-5
FAR = 4 * NOISE


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default="skellam")
    parser.add_argument("--size", type=int, default=8316)
    parser.add_argument("--clients", type=int, default=100)
    args = parser.parse_args()

    def spent(bits: int, noise: float) -> float:
        grid = finest(bits, noise, CLIP, args.size, args.clients, args.clients)
        if grid == math.inf:
            return math.inf
        shares = on_grid(args.kind, noise, CLIP, grid, args.size, args.clients)
        return epsilon([Term(shares, RATE, "poisson", ROUNDS)], DELTA)

    figure = continuous([Release(NOISE, RATE, ROUNDS)], DELTA, "rdp")
    print(f"continuous: epsilon {figure:.4f} (rdp), {continuous([Release(NOISE, RATE, ROUNDS)], DELTA):.4f} (pld)")
    print("bits |    grid | epsilon |   more |  noise |   more")
    for bits in range(9, 17):
        found = spent(bits, NOISE)
        steps = range(math.floor(1000 * NOISE), math.ceil(1000 * FAR))
        needed = steps[0] + bisect_left(steps, True, key=lambda t, bits=bits: spent(bits, t / 1000) <= figure)
        noise = f"{needed / 1000:6.3f} | {needed / 1000 / NOISE - 1:6.2%}" if needed < steps[-1] else "  none |   none"
        grid = finest(bits, NOISE, CLIP, args.size, args.clients, args.clients)
        print(f"{bits:4} | {grid:7.5f} | {found:7.4f} | {found / figure - 1:6.2%} | {noise}")


if __name__ == "__main__":
    main()
