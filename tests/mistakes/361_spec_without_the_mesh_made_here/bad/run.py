"""Runs the checks of a host that are named, each a module with a function `check(size, seed, tolerance)`."""

import argparse
import importlib
import sys


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checks", nargs="*", default=["contraction"])
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    return parser.parse_args()


def main():
    args = parse()
    fine = True
    for name in args.checks:
        module = importlib.import_module(name)
        for seed in range(args.repeats):
            good, error, _ = module.check(args.size, seed, args.tolerance)
            print(f"{name} {seed}:", "as expected" if good else f"off by {error:.1e}")
            fine = fine and good
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
