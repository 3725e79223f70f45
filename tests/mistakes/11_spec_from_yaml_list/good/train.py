"""A toy training run."""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp

from settings import Settings
from sharding import Layout


def forward(params, x, sharding):
    hidden = jnp.tanh(x @ params["w1"])
    hidden = jax.lax.with_sharding_constraint(hidden, sharding)
    return hidden, hidden @ params["w2"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    args = parser.parse_args()
    settings = Settings.load(args.config)
    layout = Layout(settings)
    k1, k2, kx = jax.random.split(jax.random.key(0), 3)
    params = {
        "w1": jax.random.normal(k1, (settings.hidden, settings.hidden)) * 0.1,
        "w2": jax.random.normal(k2, (settings.hidden, 1)) * 0.1,
    }
    params = jax.device_put(params, layout.replicated)

    @jax.jit
    def step(params, x):
        def loss(params):
            hidden, out = forward(params, x, layout.activation)
            return jnp.mean(out**2), hidden

        (value, hidden), grads = jax.value_and_grad(loss, has_aux=True)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value, hidden

    x = jax.random.normal(kx, (settings.batch_size, settings.hidden))
    for _ in range(settings.steps):
        params, value, hidden = step(params, x)
    print("loss", float(value), "activation shard", hidden.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
