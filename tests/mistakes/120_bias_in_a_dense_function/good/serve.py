"""Batch scoring entry point."""
import argparse

import jax
import numpy as np

from server import Scorer


def requests(n, width, size, seed=3):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield rng.normal(size=(size, width)).astype(np.float32)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--width", type=int, default=32)
    args = parser.parse_args(argv)

    scorer = Scorer(jax.devices(), width=args.width)
    for i, batch in enumerate(requests(args.requests, args.width, args.size)):
        scores = scorer(batch)
        print(f"request {i}: mean {scores.mean():+.5f} top {int(scores.argmax())} max {scores.max():+.5f}")


if __name__ == "__main__":
    main()
