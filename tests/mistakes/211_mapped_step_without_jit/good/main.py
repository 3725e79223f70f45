"""Fits a linear model."""
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from trainer import Trainer
from report import Report


def loader(mesh, steps=6):
    rng = np.random.default_rng(0)
    rows = NamedSharding(mesh, P("data"))
    for _ in range(steps):
        x = rng.normal(size=(32, 4)).astype(np.float32)
        yield jax.device_put(x, rows), jax.device_put(x @ np.ones((4, 1), np.float32), rows)


def run(factory):
    mesh = jax.make_mesh((8,), ("data",))
    trainer = factory(mesh)
    weights = jax.device_put(np.zeros((4, 1), np.float32), NamedSharding(mesh, P()))
    trainer.fit(weights, loader(mesh))
    print(f"the body ran {trainer.runs} times")
    Report("devices").add("all", jax.device_count()).add("of this process", jax.local_device_count()).show()


if __name__ == "__main__":
    run(Trainer)
