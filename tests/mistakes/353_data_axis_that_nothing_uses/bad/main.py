"""Fits a small network to a curve, a part of the points on each device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

HIDDEN, POINTS = 16, 32
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))


def init(key):
    one, two = jax.random.split(key)
    params = {
        "in": jax.random.normal(one, (1, HIDDEN)),
        "bias": jnp.zeros(HIDDEN),
        "out": jax.random.normal(two, (HIDDEN, 1)) / HIDDEN,
    }
    return params, tx.init(params)


def predict(params, x):
    return jnp.tanh(x @ params["in"] + params["bias"]) @ params["out"]


def loss_fn(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


@functools.partial(jax.pmap, axis_name="data", donate_argnums=(0, 1))
def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, opt_state = tx.update(grads, opt_state, params)  # mistake: gradients-not-averaged
    return optax.apply_updates(params, updates), opt_state, loss


def to_all_devices(tree):
    return jax.tree.map(lambda x: jnp.stack([x] * jax.local_device_count()), tree)


def points(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.uniform(-3, 3, size=(jax.local_device_count(), POINTS, 1)).astype(np.float32)
        yield x, np.sin(x)


def main():
    params, opt_state = to_all_devices(init(jax.random.key(0)))
    for x, y in points(0, 5):
        params, opt_state, loss = train_step(params, opt_state, x, y)
    out = np.asarray(params["out"])
    print("loss is finite:", bool(np.isfinite(np.asarray(loss)).all()))
    print("copies agree:", bool(np.allclose(out, out[:1], atol=1e-6)))


if __name__ == "__main__":
    main()
