"""Decodes a few tokens."""

import argparse

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from engine import Engine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()

    engine = Engine(Mesh(jax.devices(), ("model",)))
    cache = jnp.zeros((args.batch, args.length, args.heads, args.dim))
    query = jnp.ones((args.batch, args.heads, 1, args.dim))
    for index in range(2):
        key = jnp.full((args.batch, 1, args.heads, args.dim), 0.1 * (index + 1))
        cache, out = engine.decode(cache, query, key, index)
        print("cache", cache.shape, "out", out.shape, flush=True)
        query = out


if __name__ == "__main__":
    main()
