"""A frozen teacher, split over devices, scores what a small student is trained on."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

DIM, HIDDEN, LAYERS = 256, 1024, 4
mesh = jax.make_mesh((8,), ("model",), axis_types=(jax.sharding.AxisType.Auto,))


def place(random):
    columns, rows = NamedSharding(mesh, P(None, "model")), NamedSharding(mesh, P("model", None))
    up = [random.normal(size=(DIM, HIDDEN)).astype(np.float32) / 16 for _ in range(LAYERS)]
    down = [random.normal(size=(HIDDEN, DIM)).astype(np.float32) / 32 for _ in range(LAYERS)]
    return {"up": jax.device_put(up, columns), "down": jax.device_put(down, rows)}


def apply(weights, x):
    for up, down in zip(weights["up"], weights["down"]):
        x = x + jax.nn.gelu(x @ up) @ down
    return x


class Distill:
    def __init__(self, teacher):
        self.teacher = teacher
        self.update = jax.jit(self._update, donate_argnums=0)

    def loss(self, student, x):
        target = apply(self.teacher, x)  # here SL105
        return jnp.mean((jnp.tanh(x @ student["w"]) - target) ** 2)

    def _update(self, student, x):
        loss, grads = jax.value_and_grad(self.loss)(student, x)
        return jax.tree.map(lambda p, g: p - 0.01 * g, student, grads), loss


def main():
    random = np.random.default_rng(0)
    distill = Distill(place(random))
    whole = NamedSharding(mesh, P())
    student = jax.device_put({"w": random.normal(size=(DIM, DIM)).astype(np.float32) / 16}, whole)
    for step in range(3):
        x = jax.device_put(random.normal(size=(64, DIM)).astype(np.float32), whole)
        student, loss = distill.update(student, x)
        print(step, float(loss))


main()
