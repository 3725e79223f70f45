"""Fits a mean for a given time."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from setup import Rows, connect


@jax.jit
def step(mean, rows):
    loss, grads = jax.value_and_grad(lambda m: jnp.mean((rows - m) ** 2))(mean)
    return mean - 0.1 * grads, loss


class Budget:
    """The seconds that may be spent on training."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.since = time.monotonic()

    def spent(self):
        return time.monotonic() - self.since


def fit(rows, seconds, width):
    mean = jnp.zeros(width)
    budget = Budget(seconds)
    rows.open()
    loss = 0.0
    for i in range(100_000):
        batch = rows.next()
        mean, loss = step(mean, batch)
        if i % 10 == 0:
            loss = float(loss)
        over = np.array(budget.spent() > budget.seconds)
        if multihost_utils.broadcast_one_to_all(over):
            break
    return mean, loss


def main(seconds=6.0, batch=64, width=8):
    mesh = connect()
    mean, loss = fit(Rows(mesh, batch, width), seconds, width)
    multihost_utils.sync_global_devices("trained")
    if jax.process_index() == 0:
        print(f"done, mean below 1: {bool(np.abs(np.asarray(mean)).max() < 1)}", flush=True)


if __name__ == "__main__":
    main()
