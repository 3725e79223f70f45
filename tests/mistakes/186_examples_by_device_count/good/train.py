import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from corpus import Corpus, local_batches
from unigram import entropy, update


def connect() -> None:
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            os.environ["COORDINATOR"], int(os.environ["WORLD"]), int(os.environ["RANK"])
        )


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("--examples", type=int, default=1024)
    ap.add_argument("--length", type=int, default=16)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=1)
    args = ap.parse_args()
    connect()
    rng = np.random.default_rng(0)
    corpus = Corpus(rng.zipf(1.5, args.examples * args.length).astype(np.int32) % 256, args.length)
    mesh = Mesh(np.asarray(jax.devices()), ("data",))
    rows = NamedSharding(mesh, P("data"))
    counts = jax.device_put(jnp.zeros(256, jnp.int32), NamedSharding(mesh, P()))
    for epoch in range(args.epochs):
        for local in local_batches(corpus, args.batch, seed=epoch):
            counts = update(counts, jax.make_array_from_process_local_data(rows, local))
    seen = int(counts.sum()) // args.length
    print(f"seen {seen} of {args.epochs * args.examples} examples, entropy {float(entropy(counts)):.3f}")


if __name__ == "__main__":
    main()
