"""Applies a mixer block once."""

import argparse

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mixer import model
from mixer.initialize import Initializer

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=64)
    args = parser.parse_args()

    initializer = Initializer(Mesh(jax.devices(), ("tp",)))
    params = initializer(jax.random.key(0), model.specs(args.dim, args.hidden))
    out = jax.jit(model.apply)(params, jnp.ones((8, args.dim)))
    print("output", out.shape)
