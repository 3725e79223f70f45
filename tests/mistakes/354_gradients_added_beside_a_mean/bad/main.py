"""Trains on all devices by the algorithm that the command line names."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

import algorithms

FEATURES, ROWS = 6, 16


def network(params, x):
    return jnp.tanh(x @ params)


def batches(seed, devices, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.normal(size=(devices, ROWS, FEATURES)).astype(np.float32)
        yield {"x": x, "next": np.roll(x, 1, axis=1), "y": np.tanh(x.sum(-1, keepdims=True))}


class Trainer:
    def __init__(self, name, learning_rate):
        self.tx = tx = optax.sgd(learning_rate)
        make = getattr(algorithms, f"make_{name}")
        self.step = jax.pmap(make(network, tx, period=2), axis_name=algorithms.DEVICES)
        params = jnp.full((FEATURES, 1), 0.1)
        state = algorithms.State(params, params, tx.init(params), jnp.zeros((), jnp.int32))
        self.state = jax.tree.map(lambda x: jnp.stack([x] * jax.local_device_count()), state)

    def run(self, data):
        for batch in data:
            self.state, metrics = self.step(self.state, batch)
        return float(metrics["loss"][0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm", default="regression")
    asked = parser.parse_args()
    trainer = Trainer(asked.algorithm, 1e-2)
    batch = next(batches(0, jax.local_device_count(), 1))
    before = np.asarray(trainer.state.params[0])
    trainer.run([batch])
    moved = np.abs(np.asarray(trainer.state.params[0]) - before)
    print("step as on one device:", bool(np.allclose(moved, alone(before, batch), rtol=1e-3, atol=1e-6)))


def alone(params, batch):
    """How far plain SGD moves the parameters with the whole batch on one device."""
    x, y, after = (np.concatenate(batch[name]) for name in ("x", "y", "next"))

    def loss_fn(params):
        return jnp.mean((network(params, x) - jax.lax.stop_gradient(y + 0.5 * network(before, after))) ** 2)

    before = params
    return np.abs(1e-2 * np.asarray(jax.grad(loss_fn)(params)))


if __name__ == "__main__":
    main()
