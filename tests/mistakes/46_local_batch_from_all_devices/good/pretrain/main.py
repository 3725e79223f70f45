import argparse
import itertools
import os

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from pretrain.config import DataConfig
from pretrain.data import global_batches


def loss_fn(params, tokens):
    logits = params["embed"][tokens[:, :-1]] @ params["embed"].T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return -jnp.mean(picked)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--per-device", type=int, default=2)
    args = parser.parse_args()
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    cfg = DataConfig(per_device_batch_size=args.per_device)
    mesh = Mesh(jax.devices(), ("data",))
    replicated = NamedSharding(mesh, P())
    params = jax.jit(lambda k: {"embed": jax.random.normal(k, (cfg.vocab, 16))}, out_shardings=replicated)(
        jax.random.key(0)
    )
    step = jax.jit(jax.value_and_grad(loss_fn), out_shardings=replicated)
    for tokens in itertools.islice(global_batches(cfg, NamedSharding(mesh, P("data"))), args.steps):
        loss, grads = step(params, tokens)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    print(f"process {jax.process_index()} global batch {tokens.shape[0]} loss {float(loss):.3f}")


if __name__ == "__main__":
    main()
