import argparse

import jax
from jax.sharding import NamedSharding, PartitionSpec

from seq import rnn
from seq.partition import get_mesh


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--dim", type=int, default=32)
    args = parser.parse_args()

    params = rnn.init(jax.random.key(0), args.dim)
    params = jax.device_put(params, NamedSharding(get_mesh(), PartitionSpec()))
    generate = jax.jit(rnn.unroll, static_argnames=("batch", "steps"))
    trace = generate(params, batch=args.batch, steps=args.steps)
    print("trace", trace.shape)
    print("trace shard:", trace.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
