"""Command line."""

import argparse

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType

from translate.loop import fit
from translate.model import Translator


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
    batches = [(jnp.ones((8, args.dim)), jnp.zeros((8, args.dim)))] * 2
    with jax.set_mesh(mesh):
        model = Translator(args.dim, args.hidden, rngs=nnx.Rngs(0))
        loss = fit(model, batches, args.lr)
    print("loss", loss)
    print("kernel", getattr(model.up.kernel[...].sharding, "spec", model.up.kernel[...].sharding))


if __name__ == "__main__":
    main()
