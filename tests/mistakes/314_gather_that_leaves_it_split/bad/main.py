"""Places the weights of a small network, and gathers them to be written to a file."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from placing import Placer

RULES = (("kernel$", P("data", None)), (".*", P()))


def init(key):
    one, two = jax.random.split(key)
    return {
        "in": {"kernel": jax.random.normal(one, (16, 32)), "bias": jnp.zeros(32)},
        "out": {"kernel": jax.random.normal(two, (32, 8)), "bias": jnp.zeros(8)},
    }


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))
    shard_fns, gather_fns = Placer(mesh, RULES).make_shard_and_gather_fns(params)
    params = jax.tree.map(lambda fn, x: fn(x), shard_fns, params)
    whole = jax.tree.map(lambda fn, x: fn(x), gather_fns, params)
    print("whole on every device:", all(x.is_fully_replicated for x in jax.tree.leaves(whole)))


if __name__ == "__main__":
    main()
