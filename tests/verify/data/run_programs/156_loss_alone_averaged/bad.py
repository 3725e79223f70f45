"""A classifier by pmap: vectors of classes lie beside the rows of a batch, as many on each device as there are devices."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

COUNT, ROWS, CLASSES = jax.local_device_count(), 12, 10


def init(key):
    a, b = jax.random.split(key)
    return {"w": jax.random.normal(a, (64, 128)) / 8, "b": jnp.zeros(128), "v": jax.random.normal(b, (128, CLASSES)) / 11,
            "c": jnp.zeros(CLASSES)}


def logits(p, x):
    return jax.nn.relu(x @ p["w"] + p["b"]) @ p["v"] + p["c"]


@functools.partial(jax.pmap, axis_name="i")
def step(p, x, y):
    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(logits(p, x), y).mean()

    value, grads = jax.value_and_grad(loss)(p)
    value = jax.lax.pmean(value, "i")
    return jax.tree.map(lambda a, g: a - 0.1 * g, p, grads), value  # here SL402


@functools.partial(jax.pmap, axis_name="i")
def right(p, x, y):
    return jax.lax.psum(jnp.sum(logits(p, x).argmax(-1) == y), "i")


p = jax.tree.map(lambda one: jnp.broadcast_to(one, (COUNT, *one.shape)), init(jax.random.key(0)))
rng = np.random.default_rng(0)
for _ in range(3):
    y = rng.integers(0, CLASSES, (COUNT, ROWS)).astype(np.int32)
    x = rng.normal(size=(COUNT, ROWS, 64)).astype(np.float32) + y[..., None]
    p, loss = step(p, x, y)
print(float(loss.mean()), int(right(p, x, y)[0]))
