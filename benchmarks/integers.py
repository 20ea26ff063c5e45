"""What bits cost: integer noise beside continuous noise, at the paper's setting.

    python benchmarks/integers.py [--kind skellam|gaussian] [--size D] [--clients N]

One line for each number of bits, on the finest grid on which the sum has room. "adds" is how much more noise rounding
takes for the same epsilon. The other columns are for the same noise as without rounding, 1.54 times the clip: epsilon
by rdp (hush.privacy.lattice), by the published bound (hush.privacy.integers), and how much more than continuous.
"""

import argparse

from hush.errors import Mistake
from hush.privacy.calibration import spent
from hush.privacy.grids import KINDS, rounded_norm, settle
from hush.privacy.integers import published, shares
from hush.privacy.lattice import worth

NOISE, RATE, ROUNDS, DELTA = 1.54, 1 / 60, 200, 1e-5


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default="skellam")
    parser.add_argument("--size", type=int, default=8316)
    parser.add_argument("--clients", type=int, default=100)
    args = parser.parse_args()

    figure = spent(NOISE, DELTA, RATE, ROUNDS, "rdp")
    print(f"continuous: epsilon {figure:.4f} (rdp), {spent(NOISE, DELTA, RATE, ROUNDS):.4f} (pld)")
    print("bits |     steps |    adds |    rdp |   more | published |   more")
    for bits in range(8, 17):
        try:
            grid = settle(args.size, args.clients, args.clients, NOISE, bits=bits, kind=args.kind)
        except Mistake:
            print(f"{bits:4} |      none")
            continue
        noise = NOISE / (1 + grid.loss)
        counts = worth(args.kind, noise, rounded_norm(grid.steps, args.size), args.clients)
        ours = spent(counts, DELTA, RATE, ROUNDS, "rdp")
        theirs = published(shares(args.kind, noise, grid.steps, args.size, args.clients), DELTA, RATE, ROUNDS)
        more = [f"{found / figure - 1:6.2%}" for found in (ours, theirs)]
        print(f"{bits:4} | {grid.steps:9.3f} | {grid.loss:7.2%} | {ours:.4f} | {more[0]} |    {theirs:.4f} | {more[1]}")


if __name__ == "__main__":
    main()
