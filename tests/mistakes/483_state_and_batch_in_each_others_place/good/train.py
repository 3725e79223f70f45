"""Trains a linear model: rows over the devices, weights whole on each of them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

FEATURES, ROWS = 16, 64


class Trainer:
    """Holds the mesh, the shardings and the compiled step."""

    def __init__(self, rate):
        self.rate = rate
        self.mesh = Mesh(np.array(jax.devices()), ("data",))
        self.batch_sharding = NamedSharding(self.mesh, P("data"))
        self.replicated = NamedSharding(self.mesh, P())
        self.step = jax.jit(
            self.train_step,
            in_shardings=(self.replicated, self.batch_sharding),
            out_shardings=self.replicated,
        )

    def init(self, key):
        return {"w": 0.1 * jax.random.normal(key, (FEATURES, 1)), "b": jnp.zeros((FEATURES, 1))}

    def train_step(self, params, batch):
        def loss_fn(params):
            prediction = batch["x"] @ (params["w"] + params["b"])
            return jnp.mean((prediction[:, 0] - batch["y"]) ** 2)

        grads = jax.grad(loss_fn)(params)
        return jax.tree.map(lambda p, g: p - self.rate * g, params, grads)


def batches(count):
    rng = np.random.default_rng(0)
    weights = np.random.default_rng(1).normal(size=(FEATURES,))
    for _ in range(count):
        x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
        yield {"x": x, "y": (x @ weights).astype(np.float32)}


def rows_on_each_device(trainer, params, batch):
    """How many rows of the batch the compiled step takes on one device."""
    shardings, _ = trainer.step.lower(params, batch).compile().input_shardings
    return shardings[1]["x"].shard_shape(batch["x"].shape)[0]


def main():
    trainer = Trainer(rate=0.05)
    params = trainer.init(jax.random.key(0))
    shapes = jax.eval_shape(lambda: params)
    for batch in batches(20):
        rows = rows_on_each_device(trainer, shapes, batch)
        params = trainer.step(jax.tree.map(np.asarray, params), batch)
    print("rows on each device:", rows)


if __name__ == "__main__":
    main()
