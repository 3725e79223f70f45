"""Fills a few pages."""

import argparse

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from paged.pool import KVPool
from paged.server_args import ServerArgs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tp-size", type=int, default=8)
    parser.add_argument("--pages", type=int, default=2)
    options = parser.parse_args()
    args = ServerArgs(tp_size=options.tp_size)
    mesh = Mesh(jax.devices()[: args.tp_size], ("tensor",))
    pool = KVPool(args, mesh)
    for page in range(options.pages):
        pool.write(page, jnp.full((args.page_size, 2 * args.num_kv_heads, args.head_dim), float(page)))
    print(f"pages on {len(pool.pages.sharding.device_set)} device(s)")


if __name__ == "__main__":
    main()
