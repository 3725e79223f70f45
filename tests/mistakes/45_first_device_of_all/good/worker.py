"""One process of the data pipeline."""

import argparse

import jax
import numpy as np

from distributed import Cluster
from preprocess import Normalizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=32)
    parser.add_argument("--features", type=int, default=4)
    args = parser.parse_args()

    Cluster.from_environment().connect()
    rng = np.random.default_rng(jax.process_index())
    examples = rng.normal(size=(args.examples, args.features)).astype(np.float32)
    normalizer = Normalizer().fit(examples)
    out = normalizer(examples)
    print(f"process {jax.process_index()} statistics {out.mean():.3f} {out.std():.3f}", flush=True)


if __name__ == "__main__":
    main()
