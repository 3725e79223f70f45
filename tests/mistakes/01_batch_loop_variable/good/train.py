"""Trains a two-layer network with data parallelism."""

import argparse
import itertools

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from config import Config
from data import ShardedLoader, raw_batches


def init_params(key, cfg):
    k1, k2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (cfg.features, cfg.hidden)) * 0.1,
        "w2": jax.random.normal(k2, (cfg.hidden, 1)) * 0.1,
    }


def loss_fn(params, batch):
    hidden = jax.nn.relu(batch["inputs"] @ params["w1"])
    error = (hidden @ params["w2"] - batch["targets"])[:, 0] ** 2
    return jnp.sum(error * batch["mask"]) / jnp.sum(batch["mask"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    cfg = Config()
    mesh = Mesh(jax.devices(), (cfg.data_axis,))
    params = jax.device_put(init_params(jax.random.key(cfg.seed), cfg), NamedSharding(mesh, PartitionSpec()))
    tx = optax.adam(cfg.learning_rate)
    opt_state = tx.init(params)

    @jax.jit
    def step(params, opt_state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, opt_state = tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, loss

    loader = ShardedLoader(raw_batches(cfg), mesh, cfg.data_axis)
    for i, batch in enumerate(itertools.islice(loader, args.steps)):
        params, opt_state, loss = step(params, opt_state, batch)
        print(f"step {i} loss {float(loss):.4f}")
    x = jnp.asarray(batch["inputs"])
    print(f"batch on {len(x.sharding.device_set)} device(s)")


if __name__ == "__main__":
    main()
