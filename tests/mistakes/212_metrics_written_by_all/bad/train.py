"""Trains on several hosts and keeps a file of metrics."""
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from clock import Clock


class Metrics:
    def __init__(self, path):
        self.file = open(path, "a")  # mistake: one-file-many-writers

    def add(self, **values):
        self.file.write(json.dumps(values) + "\n")
        self.file.flush()


@jax.jit
def step(weights, x):
    return weights - 0.1 * jax.grad(lambda w: jnp.mean((x @ w - 1.0) ** 2))(weights), jnp.mean(x @ weights)


def main():
    clock = Clock()
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    with clock.part("begin"):
        mesh = Mesh(np.array(jax.devices()), ("data",))
    rng = np.random.default_rng(jax.process_index())
    weights = jnp.zeros(4)
    metrics = Metrics("metrics.jsonl")
    for number in range(4):
        x = rng.normal(size=(16, 4)).astype(np.float32)
        batch = jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), x)
        weights, mean = step(weights, batch)
        metrics.add(step=number, mean=float(mean))
        if jax.process_index() == 0:
            print(f"step {number}: {float(mean):.3f}", flush=True)
    multihost_utils.sync_global_devices("trained")
    if jax.process_index() == 0:
        with open("metrics.jsonl") as file:
            print("lines in metrics.jsonl:", len(file.readlines()))
    clock.show()


if __name__ == "__main__":
    main()
