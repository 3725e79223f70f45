import jax
import jax.numpy as jnp
import numpy as np

D, B = 128, 64
rng = np.random.default_rng(0)


def loss_fn(w, x, key):
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return jnp.mean(jnp.tanh((x * keep) @ w) ** 2)


def update(w, x, key):
    grads = jax.lax.pmean(jax.grad(loss_fn)(w, x, key), "data")
    return w - 0.1 * grads


def copies(x):
    return jnp.broadcast_to(x, (jax.local_device_count(), *x.shape))


step = jax.pmap(update, axis_name="data")
w = copies(jnp.asarray(rng.normal(size=(D, D)).astype(np.float32)))
key = jax.random.PRNGKey(0)
for _ in range(3):
    key, now = jax.random.split(key)
    x = rng.normal(size=(jax.local_device_count(), B // jax.local_device_count(), D)).astype(np.float32)
    w = step(w, x, jax.random.split(now, jax.local_device_count()))
print(float(w.sum()))
