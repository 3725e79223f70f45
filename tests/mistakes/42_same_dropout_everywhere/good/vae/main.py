"""Encodes a constant batch, to look at the noise."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from vae.encoder import Encoder
from vae.sharded import encode_sharded


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--per-device", type=int, default=2)
    args = parser.parse_args()

    mesh = Mesh(jax.devices(), ("data",))
    encoder = Encoder(32, 4, args.rate, jax.random.key(0))
    x = jnp.ones((args.per_device * mesh.size, 32))
    latent = np.asarray(encode_sharded(mesh)(encoder, x, jax.random.key(1)))
    groups = latent.reshape(mesh.size, -1)
    print("distinct masks:", len(np.unique(groups, axis=0)))


if __name__ == "__main__":
    main()
