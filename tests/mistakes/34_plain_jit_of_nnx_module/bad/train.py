"""Fits a sine."""

import argparse

import jax
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh

from mlp import Mlp
from steps import Steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()

    mesh = Mesh(jax.devices(), ("data",))
    steps = Steps(mesh)
    model = Mlp((1, 16, 1), rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    steps.replicate(model)
    steps.replicate(optimizer)
    first = np.asarray(model.layers[0].kernel[...])

    rng = np.random.default_rng(0)
    for i in range(args.steps):
        x = rng.uniform(-3, 3, size=(args.batch, 1)).astype(np.float32)
        x, y = jax.device_put((x, np.sin(x)), steps.batch)
        loss = steps.train(model, optimizer, x, y)
        print(f"step {i} loss {float(loss):.4f}")
    print("moved:", not np.array_equal(first, np.asarray(model.layers[0].kernel[...])))


if __name__ == "__main__":
    main()
