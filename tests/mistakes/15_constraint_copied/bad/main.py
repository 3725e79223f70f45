"""Reports how the quantised experts are laid out."""

import argparse

import jax
import numpy as np
from jax.sharding import Mesh

from experts import EXPERT_AXIS, process_weights


def load(num_experts: int, dim: int, hidden: int):
    """Weights as they come from a file: whole, on the host."""
    rng = np.random.default_rng(0)
    return {
        "w13": rng.integers(-127, 128, size=(num_experts, 2 * hidden, dim), dtype=np.int8),
        "w13_scale": rng.uniform(size=(num_experts, 2 * hidden)).astype(np.float16),
        "w2": rng.integers(-127, 128, size=(num_experts, dim, hidden), dtype=np.int8),
        "w2_scale": rng.uniform(size=(num_experts, dim)).astype(np.float16),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=32)
    args = parser.parse_args()

    mesh = Mesh(jax.devices(), (EXPERT_AXIS,))
    weights = process_weights(mesh, load(args.experts, args.dim, args.hidden))
    for name, value in weights.items():
        print(name, "shard", value.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
