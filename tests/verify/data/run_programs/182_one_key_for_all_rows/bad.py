"""Local SGD by pmap: the index of the batch does not depend on the device, so that all see the same rows."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils

N, ROWS, D, B = 8, 1024, 32, 16


@functools.partial(jax.pmap, axis_name="w", in_axes=(0, None, None, 0))
def train(p, x, y, key):
    i = jax.random.randint(key, (B,), 0, ROWS)

    def loss(p):
        return jnp.mean((jnp.tanh(x[i] @ p["w"]) @ p["v"] - y[i]) ** 2)

    value, g = jax.value_and_grad(loss)(p)
    g = jax.lax.pmean(g, "w")
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), jax.lax.pmean(value, "w")


def main():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, D)).astype(np.float32)
    p = jax.tree.map(np.float32, {"w": rng.normal(size=(D, 16)) * 0.1, "v": rng.normal(size=16) * 0.1})
    p = jax_utils.replicate(p)
    key = jax.random.PRNGKey(0)
    for _ in range(5):
        key, sub = jax.random.split(key)
        keys = jnp.broadcast_to(sub, (N, 2))  # here
        p, loss = train(p, x, x[:, 0], keys)
        print(float(loss[0]))


if __name__ == "__main__":
    main()
