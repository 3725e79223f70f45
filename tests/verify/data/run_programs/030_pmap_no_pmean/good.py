import jax
import jax.numpy as jnp
import numpy as np


def loss_fn(w, x, y):
    h = jnp.tanh(x @ w["up"])
    return jnp.mean((h @ w["down"] - y) ** 2)


def update(w, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(w, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "batch")
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), loss


step = jax.pmap(update, axis_name="batch")

rng = np.random.default_rng(0)
w = {
    "up": rng.normal(size=(512, 2048)).astype(np.float32) * 0.02,
    "down": rng.normal(size=(2048, 512)).astype(np.float32) * 0.02,
}
w = (
    jax.device_put_replicated(w, jax.devices())
    if hasattr(jax, "device_put_replicated")
    else jax.tree.map(lambda p: np.broadcast_to(p, (8, *p.shape)), w)
)
for i in range(3):
    x = rng.normal(size=(8, 8, 512)).astype(np.float32)
    w, loss = step(w, x, x)
print(float(loss[0]))
