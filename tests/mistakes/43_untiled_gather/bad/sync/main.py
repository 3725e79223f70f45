"""Compares the sharded network with the one of one device."""

import argparse

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from sync import network


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dim", type=int, default=8)
    args = parser.parse_args()
    mesh = Mesh(jax.devices(), ("batch",))
    params = network.init(jax.random.key(0), args.dim, hidden=16)
    x = jax.random.normal(jax.random.key(1), (args.batch, args.dim)) * 3 + 1
    out = network.sharded_apply(mesh, "batch")(params, x)
    expected = network.apply(params, x)
    print("equals one device:", bool(jnp.allclose(out, expected, atol=1e-3)))


if __name__ == "__main__":
    main()
