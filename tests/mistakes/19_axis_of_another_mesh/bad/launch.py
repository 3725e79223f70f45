"""Starts a run on a machine."""

import argparse

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

import layers
from constants import Axis
from launcher import TOPOLOGIES, mesh_for


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", choices=sorted(TOPOLOGIES), default="v5e-8")
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    mesh = mesh_for(args.machine)
    params = layers.init(jax.random.key(0), mesh, dim=16, hidden=32)
    x = jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, PartitionSpec(Axis.DATA)))
    step = jax.jit(jax.value_and_grad(layers.loss))
    for _ in range(args.steps):
        value, grads = step(params, x)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    print("final loss", float(value))


if __name__ == "__main__":
    main()
