"""Serves one batch."""

import argparse

import jax
import numpy as np

from regressor.model import Regressor
from regressor.serving import Server


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sharded", action="store_true")
    parser.add_argument("--rows", type=int, default=64)
    options = parser.parse_args()
    model = Regressor(features=12, hidden=32, key=jax.random.key(0))
    server = Server(model, options.sharded)
    rows = np.random.default_rng(0).normal(size=(options.rows, 12)).astype(np.float32)
    found = server.answer(rows)
    print(f"prediction over {len(found.sharding.device_set)} devices, first {float(found[0]):.3f}")


if __name__ == "__main__":
    main()
