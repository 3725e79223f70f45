"""Finetunes an adapter on a model-parallel mesh."""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding

import adapter
from match import match_partition_rules


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    mesh = Mesh(jax.devices(), ("mp",))
    key = jax.random.key(0)
    specs = match_partition_rules(adapter.RULES, jax.eval_shape(adapter.init, key))
    shard_fns = jax.tree.map(lambda spec: partial(jax.device_put, device=NamedSharding(mesh, spec)), specs)
    params = jax.tree.map(lambda shard, value: shard(value), shard_fns, adapter.init(key))

    @jax.jit
    def step(params, x):
        loss, grads = jax.value_and_grad(lambda p: jnp.mean(adapter.apply(p, x) ** 2))(params)
        lora = jax.tree.map(lambda p, g: p - args.lr * g, params["lora"], grads["lora"])
        return {**params, "lora": lora}, loss

    for _ in range(args.steps):
        params, loss = step(params, jnp.ones((8, 16)))
    print("final loss", float(loss))


if __name__ == "__main__":
    main()
