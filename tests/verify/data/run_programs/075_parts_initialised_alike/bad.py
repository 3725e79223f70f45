import functools

import jax
import jax.numpy as jnp
import numpy as np

DEVICES = jax.local_device_count()
WIDTH, HIDDEN, BATCH = 512, 2048, 32


class Block:
    """A tensor parallel block: every device has a slice of the hidden layer."""

    def __init__(self, seed):
        self.key = jax.random.PRNGKey(seed)

    def init(self, index):
        up, down = jax.random.split(self.key)
        part = HIDDEN // DEVICES
        return {
            "up": jax.random.normal(up, (WIDTH, part)) / WIDTH**0.5,  # here
            "down": jax.random.normal(down, (part, WIDTH)) / HIDDEN**0.5,
        }

    def apply(self, params, x):
        return x + jax.lax.psum(jax.nn.relu(x @ params["up"]) @ params["down"], "model")


block = Block(0)


@functools.partial(jax.pmap, axis_name="model", in_axes=(0, None))
def step(params, x):
    def loss_fn(params):
        return jnp.mean((block.apply(params, x) - 1.0) ** 2)

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss_fn)(params))


params = jax.pmap(block.init)(np.arange(DEVICES))
rng = np.random.default_rng(0)
for _ in range(3):
    params = step(params, rng.normal(size=(BATCH, WIDTH)).astype(np.float32))
print(jax.tree.map(lambda a: float(a.std()), params))
