"""Applies one layer with weights split over all devices."""

import argparse

import jax
import jax.numpy as jnp

from layer import forward
from weights import init, place


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=64)
    args = parser.parse_args()
    weights = place(init(jax.random.key(0), args.dim, args.hidden))
    out = forward(weights, jnp.ones((4, args.dim)))
    print("out", out.shape)
    for name, value in weights.items():
        print(name, "shard", value.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
