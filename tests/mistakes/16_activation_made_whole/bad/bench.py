"""Times the feed-forward layer."""

import argparse
import time

import jax
import jax.numpy as jnp

import ffn
import parallel as par


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dp", type=int, default=4)
    parser.add_argument("--tp", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    parallel = par.make(args.dp, args.tp)
    params = ffn.init(jax.random.key(0), parallel)
    x = jax.device_put(jnp.ones((16, 4, 8)), parallel.tokens())
    forward = ffn.make_forward(parallel, return_hidden=True)
    out, hidden = jax.block_until_ready(forward(params, x))
    start = time.perf_counter()
    for _ in range(args.repeat):
        jax.block_until_ready(forward(params, x))
    print(f"{(time.perf_counter() - start) / args.repeat * 1e3:.2f} ms")
    print("hidden shard", hidden.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
