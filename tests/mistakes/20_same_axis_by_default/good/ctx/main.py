"""Runs one block on a mesh of data and sequence shards."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from ctx.config import RunConfig
from ctx.layers import make_block
from ctx.specs import batch_spec


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=4)
    args = parser.parse_args()
    cfg = RunConfig(length=args.length)
    devices = np.array(jax.devices()).reshape(cfg.data_parallel, cfg.sequence_parallel)
    mesh = Mesh(devices, ("data", "seq"))
    x = jnp.ones((cfg.batch, cfg.length, cfg.dim))
    x = jax.device_put(x, NamedSharding(mesh, batch_spec(cfg.sharding)))
    out = make_block(cfg, mesh)(x, jnp.eye(cfg.dim))
    print("shard", out.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
