"""Fits a line by gradient descent on all devices."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from linreg.model import init, reference_gradient
from linreg.parallel import data_parallel_gradient


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()

    mesh = Mesh(jax.devices(), ("data",))
    gradient = data_parallel_gradient(mesh)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(args.batch, args.dim)), jnp.float32)
    y = x @ jnp.arange(1.0, args.dim + 1) + 0.5
    params = init(args.dim)
    for _ in range(args.steps):
        grads = gradient(params, x, y)
        expected = reference_gradient(params, x, y)
        print(f"gradient ratio {float(jnp.linalg.norm(grads['w']) / jnp.linalg.norm(expected['w'])):.2f}")
        params = jax.tree.map(lambda p, g: p - args.lr * g, params, grads)


if __name__ == "__main__":
    main()
