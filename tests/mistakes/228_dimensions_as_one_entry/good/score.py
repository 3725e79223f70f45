import argparse
import functools
from pathlib import Path

import jax
import numpy as np

import longctx
from layout import Layout


def documents(rng: np.random.Generator, count: int, batch: int, length: int, vocab: int):
    for _ in range(count):
        yield rng.integers(0, vocab, (batch, length), dtype=np.int32)


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("--layout", type=Path, default=Path(__file__).with_name("layout.yaml"))
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--length", type=int, default=512)
    args = ap.parse_args()
    layout = Layout.read(args.layout)
    params = jax.device_put(longctx.init(jax.random.key(0), 512, 64), layout.sharding("table"))
    run = jax.jit(functools.partial(longctx.score, hidden_sharding=layout.sharding("hidden")))
    for docs in documents(np.random.default_rng(0), 2, args.batch, args.length, 512):
        docs = jax.device_put(docs, layout.sharding("tokens"))
        scores = run(params, docs)
        print("mean score", float(scores.mean()))
    print("tokens", docs.sharding.spec, "shard", docs.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
