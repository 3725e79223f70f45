"""The jit of a step is told that its results are whole, state and all."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
split, whole = NamedSharding(mesh, P("fsdp")), NamedSharding(mesh, P())


class Trainer:
    def __init__(self):
        weights = {"up": np.ones((256, 1024), np.float32) / 256, "down": np.ones((1024, 256), np.float32) / 1024}
        self.params = jax.device_put(weights, split)
        self.step = jax.jit(
            self.update,
            in_shardings=(None, split),
            out_shardings=(split, whole),
        )

    @staticmethod
    def update(params, x):
        def loss(p):
            return jnp.mean((jax.nn.silu(x @ p["up"]) @ p["down"] - x) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    def run(self, steps):
        for number in range(steps):
            x = np.random.default_rng(number).normal(size=(64, 256)).astype(np.float32)
            self.params, loss = self.step(self.params, x)
        return float(loss)


print(Trainer().run(3))
