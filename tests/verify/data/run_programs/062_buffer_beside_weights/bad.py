import jax
import jax.numpy as jnp
import numpy as np


def update(w, buffer, x):
    buffer = jnp.roll(buffer, -8, axis=0).at[-8:].set(x)
    grads = jax.grad(lambda w: jnp.mean((jnp.tanh(buffer @ w) - buffer) ** 2))(w)
    return w - 0.1 * grads, buffer


step = jax.pmap(update, axis_name="batch")

rng = np.random.default_rng(0)
w = np.broadcast_to(rng.normal(size=(512, 512)).astype(np.float32) * 0.02, (8, 512, 512))
buffer = np.zeros((8, 256, 512), np.float32)
for i in range(3):
    x = rng.normal(size=(8, 8, 512)).astype(np.float32)
    w, buffer = step(w, buffer, x)  # here SL402
print(float(w[0, 0, 0]), buffer.shape)
