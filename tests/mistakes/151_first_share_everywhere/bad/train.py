import argparse
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import yaml
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from dataset import HostLoader, ShardedDataset


def init(key, din, hidden, classes):
    k1, k2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (din, hidden)) / jnp.sqrt(din),
        "b1": jnp.zeros(hidden),
        "w2": jax.random.normal(k2, (hidden, classes)) / jnp.sqrt(hidden),
        "b2": jnp.zeros(classes),
    }


def loss_fn(p, batch):
    h = jax.nn.relu(batch["x"] @ p["w1"] + p["b1"])
    logits = h @ p["w2"] + p["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()


def run(cfg):
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    replicated, batched = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    m = cfg["model"]
    ds = ShardedDataset(classes=m["classes"], **cfg["data"])
    loader = HostLoader(ds, cfg["train"]["global_batch"])
    tx = optax.sgd(cfg["train"]["lr"], momentum=0.9, nesterov=True)

    @partial(jax.jit, out_shardings=replicated)
    def create(key):
        params = init(key, ds.dim, m["hidden"], m["classes"])
        return params, tx.init(params)

    @partial(jax.jit, donate_argnums=(0, 1), out_shardings=replicated)
    def step(params, opt, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, opt = tx.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt, loss

    params, opt = create(jax.random.key(0))
    for epoch in range(cfg["train"]["epochs"]):
        for i, host in enumerate(loader.epoch(epoch)):
            batch = jax.tree.map(lambda x: jax.make_array_from_process_local_data(batched, x), host)
            params, opt, loss = step(params, opt, batch)
            if i % 4 == 0 and jax.process_index() == 0:
                print(f"epoch {epoch} step {i}/{len(loader)} loss {float(loss):.4f}", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default="tiny.yaml")
    args = ap.parse_args()
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        )
    with open(args.config) as f:
        run(yaml.safe_load(f))
