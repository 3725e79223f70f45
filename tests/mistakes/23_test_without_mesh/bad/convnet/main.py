"""Classifies random images on all devices."""

import argparse

import jax
import jax.numpy as jnp

from convnet import model
from convnet.mesh import data_mesh


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    with jax.set_mesh(data_mesh()):
        params = model.init(jax.random.key(0))
        out = model.logits(params, jnp.ones((args.batch, 8, 8, 1)))
    print(out.sharding)


if __name__ == "__main__":
    main()
