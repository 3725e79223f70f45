"""Greedy decoding with a toy attention layer."""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp

from decoder.cache import Cache
from decoder.placement import by_name, device_mesh


@eqx.filter_jit
def decode_step(cache: Cache, query, at):
    cache = cache.write(at, query, query * 0.5)
    scores = jnp.einsum("bhd,bhld->bhl", query, cache.keys)
    out = jnp.einsum("bhl,bhld->bhd", jax.nn.softmax(scores), cache.values)
    return cache, out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--placement", choices=["replicated", "heads"], default="heads")
    args = parser.parse_args()

    place = by_name(args.placement, device_mesh())
    cache = Cache.empty(batch=2, heads=8, length=args.length, dim=4)
    cache = place(cache)
    query = jnp.ones((2, 8, 4))
    for at in range(args.length):
        cache, query = decode_step(cache, query, jnp.asarray(at))
    print("cache devices:", len(cache.keys.sharding.device_set))


if __name__ == "__main__":
    main()
