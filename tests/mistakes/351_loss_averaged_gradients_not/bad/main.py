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
        tx = optax.adam(learning_rate)
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
    trainer.run(batches(0, jax.local_device_count(), 4))
    params = np.asarray(trainer.state.params)
    print("copies agree:", bool(np.allclose(params, params[:1], atol=1e-6)))


if __name__ == "__main__":
    main()
