import json
import sys

import equinox as eqx
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from fsdp import shardings
from gpt import GPT


def create(cfg, mesh, key):
    """init straight into shards, the medium model does not fit otherwise"""

    @eqx.filter_jit
    def build(key):
        model = GPT(cfg, key)
        params, static = eqx.partition(model, eqx.is_array)
        params = jax.lax.with_sharding_constraint(params, shardings(params, mesh))
        return eqx.combine(params, static)

    return build(key)


def loss_fn(model, tokens):
    logits = jax.vmap(model)(tokens[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def main(path):
    with open(path) as f:
        cfg = json.load(f)
    mesh = Mesh(np.array(jax.devices()), ("fsdp",))
    tx = optax.adamw(optax.warmup_cosine_decay_schedule(0, cfg["lr"], 2, cfg["steps"] + 2))
    model = create(cfg, mesh, jax.random.key(0))
    opt = tx.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit(donate="all-except-first")
    def step(tokens, model, opt):
        loss, grads = eqx.filter_value_and_grad(loss_fn)(model, tokens)
        updates, opt = tx.update(grads, opt, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), opt, loss

    rng = np.random.default_rng(0)
    for i in range(cfg["steps"]):
        tokens = rng.integers(0, cfg["vocab"], (cfg["batch"], cfg["seq"] + 1), dtype=np.int32)
        tokens = jax.device_put(tokens, NamedSharding(mesh, P("fsdp")))
        model, opt, loss = step(tokens, model, opt)
        if i % 10 == 0 or i < 5:
            print(i, float(loss))


if __name__ == "__main__":
    main(sys.argv[1])
