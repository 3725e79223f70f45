"""pmap forecaster with early stopping."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from data import windows
from stopping import EarlyStopping


def init(key, length, hidden):
    a, b = jax.random.split(key)
    return {
        "w1": jax.random.normal(a, (length, hidden)) * length**-0.5,
        "b1": jnp.zeros((hidden,)),
        "w2": jax.random.normal(b, (hidden,)) * hidden**-0.5,
    }


def loss_fn(params, x, y):
    pred = jnp.tanh(x @ params["w1"] + params["b1"]) @ params["w2"]
    return jnp.mean((pred - y) ** 2)


@partial(jax.pmap, axis_name="dev", in_axes=(0, 0, 0, None), donate_argnums=0)
def train_step(params, x, y, lr):
    grads = jax.lax.pmean(jax.grad(loss_fn)(params, x, y), axis_name="dev")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads)


@partial(jax.pmap, axis_name="dev")
def validation_loss(params, x, y):
    return loss_fn(params, x, y)


def split(array, devices):
    return array.reshape(devices, len(array) // devices, *array.shape[1:])


def main(length=16, epochs=60, batch=64, steps_per_epoch=5):
    n = jax.local_device_count()
    params = init(jax.random.key(0), length, 32)
    params = jax.tree.map(lambda p: jnp.stack([p] * n), params)
    stopper = EarlyStopping(patience=4)
    val_x, val_y = (split(a, n) for a in windows(512, length, seed=10_000))

    for epoch in range(epochs):
        for i in range(steps_per_epoch):
            x, y = windows(batch, length, seed=epoch * steps_per_epoch + i)
            params = train_step(params, split(x, n), split(y, n), 0.03)
        losses = validation_loss(params, val_x, val_y)
        val = float(losses[0])  # mistake: first-shard-only
        if epoch % 10 == 0:
            print(f"epoch {epoch} validation {val:.5f}")
        if stopper.should_stop(val):
            break
    print(f"stopped at epoch {epoch}, best validation {stopper.best:.5f}")


if __name__ == "__main__":
    main()
