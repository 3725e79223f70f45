import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils


def loss_fn(w, x, y):
    h = jnp.tanh(x @ w["up"])
    return jnp.mean((h @ w["down"] - y) ** 2)


@functools.partial(jax.pmap, axis_name="batch")
def update(w, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(w, x, y)
    grads = jax.lax.pmean(grads, "batch")
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), {"loss": loss}


rng = np.random.default_rng(0)
w = {
    "up": rng.normal(size=(512, 2048)).astype(np.float32) * 0.02,
    "down": rng.normal(size=(2048, 512)).astype(np.float32) * 0.02,
}
w = jax_utils.replicate(w)
for i in range(3):
    x = rng.normal(size=(8, 8, 512)).astype(np.float32)
    w, metrics = update(w, x, x)
    metrics = jax_utils.unreplicate(metrics)  # here SL418
print(float(metrics["loss"]))
