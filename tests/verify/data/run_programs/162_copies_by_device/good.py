"""Batches put together from pieces, of which two devices each hold the same: the pieces are drawn by row."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

BATCH, WIDTH = 256, 64
mesh = jax.make_mesh((4, 2), ("batch", "model"))
rows = NamedSharding(mesh, P("batch", None))


class Synthetic:
    """Examples without end, from a seed."""

    def __init__(self, seed):
        self.seed = seed

    def piece(self, step, where, count):
        return np.random.default_rng((self.seed, step, where)).normal(size=(count, WIDTH)).astype(np.float32)

    def batch(self, step):
        pieces = []
        for device, (part, _) in rows.addressable_devices_indices_map((BATCH, WIDTH)).items():
            start, stop, _ = part.indices(BATCH)
            pieces.append(jax.device_put(self.piece(step, start, stop - start), device))
        return jax.make_array_from_single_device_arrays((BATCH, WIDTH), rows, pieces)


@jax.jit
def step(weights, x):
    def loss(weights):
        return jnp.mean((jnp.tanh(x @ weights) - x) ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


def main():
    data = Synthetic(seed=5)
    weights = jax.device_put(jnp.eye(WIDTH), NamedSharding(mesh, P(None, "model")))
    for number in range(4):
        weights = step(weights, data.batch(number))
    print(float(weights.sum()))


if __name__ == "__main__":
    main()
