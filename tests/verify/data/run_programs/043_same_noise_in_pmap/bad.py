import jax
import jax.numpy as jnp
import numpy as np


def loss(w, key, x):
    noise = jax.random.normal(key, x.shape)  # here SL407
    return jnp.mean((x @ w + noise - x) ** 2)


def update(w, key, x):
    grads = jax.lax.pmean(jax.grad(loss)(w, key, x), "batch")
    return w - 0.1 * grads


step = jax.pmap(update, axis_name="batch", in_axes=(0, None, 0))
w = np.broadcast_to(np.eye(512, dtype=np.float32), (8, 512, 512))
x = np.random.default_rng(0).normal(size=(8, 8, 512)).astype(np.float32)
key = jax.random.key(0)
for i in range(3):
    w = step(w, jax.random.fold_in(key, i), x)
print(w.sum())
