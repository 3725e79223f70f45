import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

DEVICES = jax.local_device_count()
tx = optax.adam(1e-3)


def initialise(key):
    up, down = jax.random.split(key)
    params = {"up": jax.random.normal(up, (128, 512)) * 0.05, "down": jax.random.normal(down, (512, 128)) * 0.05}
    return params, tx.init(params)


def loss_fn(params, x, y):
    return jnp.mean((jax.nn.relu(x @ params["up"]) @ params["down"] - y) ** 2)


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0, 1))
def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    grads, loss = lax.pmean((grads, loss), "batch")
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def main():
    params, opt_state = jax.pmap(initialise)(jax.random.split(jax.random.key(0), DEVICES))  # here
    rng = np.random.default_rng(0)
    for i in range(3):
        x = rng.normal(size=(DEVICES, 16, 128)).astype(np.float32)
        params, opt_state, loss = train_step(params, opt_state, x, np.sin(x))
        print(i, float(loss[0]))
    trained = jax.tree.map(lambda leaf: np.asarray(leaf[0]), params)
    print(sum(leaf.size for leaf in jax.tree.leaves(trained)))


if __name__ == "__main__":
    main()
