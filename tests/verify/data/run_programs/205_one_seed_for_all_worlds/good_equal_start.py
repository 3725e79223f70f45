"""Models that begin alike, made on each device from copies of one key, and train on noise of their own."""
import functools

import jax
import jax.numpy as jnp

COUNT = jax.local_device_count()


@functools.partial(jax.pmap, axis_name="d")
def train(start, key, x):
    one, two = jax.random.split(start)
    weights = {"in": jax.random.normal(one, (8, 6)) * 0.3, "out": jax.random.normal(two, (6, 4)) * 0.3}

    def loss(weights, x):
        return jnp.mean((jnp.tanh(x @ weights["in"]) @ weights["out"] - 0.5) ** 2)

    def step(weights, key):
        noisy = x + 0.1 * jax.random.normal(key, x.shape)
        grads = jax.lax.pmean(jax.grad(loss)(weights, noisy), "d")
        return jax.tree.map(lambda one, grad: one - 0.1 * grad, weights, grads), jax.lax.pmean(loss(weights, x), "d")

    return jax.lax.scan(step, weights, jax.random.split(key, 4))


start = jnp.stack([jax.random.PRNGKey(1)] * COUNT)
x = jax.random.normal(jax.random.PRNGKey(2), (COUNT, 4, 8))
weights, losses = train(start, jax.random.split(jax.random.PRNGKey(3), COUNT), x)
print(losses[0])
