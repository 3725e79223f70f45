import argparse
from functools import partial

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as PS

from llama.config import CONFIGS, PARTITION_RULES
from llama.model import apply, init
from llama.partition import match_partition_rules, named


def masked_loss(params, batch, n_heads):
    logits = apply(params, batch["tokens"][:, :-1], n_heads)
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch["tokens"][:, 1:])
    mask = batch["mask"][:, 1:]
    return (nll * mask).sum() / mask.sum()


def fake_instructions(cfg, batch, seq, seed):
    rng = np.random.default_rng(seed)
    while True:
        prompt = rng.integers(1, seq // 2, (batch, 1))
        yield {
            "tokens": rng.integers(0, cfg["vocab"], (batch, seq), dtype=np.int32),
            "mask": (np.arange(seq)[None] >= prompt).astype(np.float32),
        }


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", default="7b", choices=CONFIGS)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--seq", type=int, default=24)
    ap.add_argument("--steps", type=int, default=3)
    args = ap.parse_args()
    cfg = CONFIGS[args.size]
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("dp", "fsdp", "mp"))
    tx = optax.adamw(2e-5, weight_decay=0.0)

    def create(key):
        params = init(key, cfg)
        return {"params": params, "opt": tx.init(params)}

    specs = match_partition_rules(PARTITION_RULES, jax.eval_shape(create, jax.random.key(0)))
    shardings = named(mesh, specs)
    data_sharding = NamedSharding(mesh, PS(("dp", "fsdp")))

    @partial(jax.jit, in_shardings=(shardings, data_sharding), out_shardings=(shardings, None), donate_argnums=0)
    def step(state, batch):
        loss, grads = jax.value_and_grad(masked_loss)(state["params"], batch, cfg["n_heads"])
        updates, opt = tx.update(grads, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, loss

    state = jax.jit(create, out_shardings=shardings)(jax.random.key(0))
    data = fake_instructions(cfg, args.batch, args.seq, seed=0)
    for i in range(args.steps):
        state, loss = step(state, jax.device_put(next(data), data_sharding))
        print(i, float(loss))


if __name__ == "__main__":
    main()
