import argparse
import sys

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from .model import CharLM
from .step import evaluate, make_optimizer, make_step

TEXT = ("the quick brown fox jumps over the lazy dog. " * 400).encode()


def sample_batch(rng, batch, length):
    data = np.frombuffer(TEXT, dtype=np.uint8)
    starts = rng.integers(0, len(data) - length - 1, size=batch)
    return np.stack([data[s : s + length + 1] for s in starts]).astype(np.int32)


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=2000)
    ap.add_argument("--dim", type=int, default=768)
    ap.add_argument("--layers", type=int, default=2)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--length", type=int, default=32)
    ap.add_argument("--log-every", type=int, default=2)
    args = ap.parse_args(argv)

    mesh = Mesh(np.array(jax.devices()), ("batch",))
    by_batch = NamedSharding(mesh, P("batch"))
    everywhere = NamedSharding(mesh, P())

    opt = make_optimizer(3e-3, warmup=10, total=max(args.steps, 20))
    model = CharLM(256, args.dim, args.layers, key=jax.random.key(0))
    model = eqx.filter_shard(model, everywhere)
    opt_state = opt.init(eqx.filter(model, eqx.is_inexact_array))
    opt_state = eqx.filter_shard(opt_state, everywhere)
    step = make_step(opt, everywhere)

    rng = np.random.default_rng(0)
    for i in range(args.steps):
        tokens = jax.device_put(sample_batch(rng, args.batch, args.length), by_batch)
        model, opt_state, loss = step(tokens, model, opt_state)
        if i % args.log_every == 0:
            fresh = jax.device_put(sample_batch(rng, args.batch, args.length), by_batch)
            print(f"{i:5d} train {float(loss):.3f} held {float(evaluate(model, fresh)):.3f}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
