"""How many rows a step takes."""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from layout import Arrangement, arrange

ROWS_OF_A_REPLICA = 8


class Plan:
    def __init__(self):
        self.mesh = arrange(Arrangement())
        data_parallel, tensor_parallel = self.mesh.devices.shape  # mistake: axis-by-place
        self.rows = ROWS_OF_A_REPLICA * data_parallel
        self.width = 64 // tensor_parallel

    def batch(self):
        rows = NamedSharding(self.mesh, PartitionSpec("data"))
        return jax.device_put(np.zeros((self.rows, 64), np.float32), rows)


    def rate(self, base):
        """Larger batches take larger steps."""
        return base * (self.rows / ROWS_OF_A_REPLICA) ** 0.5


@jax.jit
def step(weights, batch, rate):
    def loss(w):
        return ((batch @ w - 1.0) ** 2).mean()

    return weights - rate * jax.grad(loss)(weights)


def main():
    plan = Plan()
    weights = jax.device_put(np.zeros((64,), np.float32), NamedSharding(plan.mesh, PartitionSpec()))
    for _ in range(2):
        weights = step(weights, plan.batch(), plan.rate(0.01))
    print("rows in all:", plan.rows, "weights", weights.shape)


if __name__ == "__main__":
    main()
