"""Distillation whose temperature falls from round to round."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

FEATURES, WIDTH, CLASSES, ROWS = 64, 512, 32, 64
mesh = Mesh(np.array(jax.devices()), ("data",))
whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))


def init(key):
    first, second = jax.random.split(key)
    return {
        "up": jax.random.normal(first, (FEATURES, WIDTH)) * FEATURES**-0.5,
        "down": jax.random.normal(second, (WIDTH, CLASSES)) * WIDTH**-0.5,
    }


def logits_of(params, x):
    return jax.nn.gelu(x @ params["up"]) @ params["down"]


@functools.partial(jax.jit, static_argnames="final", donate_argnums=0)
def step(student, teacher, x, temperature, final=False):
    def loss_of(params):
        target = jax.nn.softmax(logits_of(teacher, x) / temperature)
        told = jax.nn.log_softmax(logits_of(params, x) / temperature)
        return -jnp.mean(jnp.sum(target * told, axis=-1)) * (1.0 if final else temperature**2)

    loss, grads = jax.value_and_grad(loss_of)(student)
    return jax.tree.map(lambda p, g: p - 0.1 * g, student, grads), loss


make = jax.jit(init, out_shardings=whole)
student, teacher = make(jax.random.key(0)), make(jax.random.key(1))
rng = np.random.default_rng(2)
for number in range(5):
    batch = jax.device_put(rng.normal(size=(ROWS, FEATURES)).astype(np.float32), rows)
    temperature = 4.0 - 0.7 * number
    student, loss = step(student, teacher, batch, temperature=temperature, final=number == 4)
print(float(loss))
