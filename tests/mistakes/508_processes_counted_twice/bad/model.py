"""A small network and its loss."""
import jax
import jax.numpy as jnp


def init(key, features, hidden):
    first, second = jax.random.split(key)
    return {
        "first": jax.random.normal(first, (features, hidden)) / features**0.5,
        "second": jax.random.normal(second, (hidden,)) / hidden**0.5,
    }


def loss(params, x, y):
    hidden = jnp.tanh(x @ params["first"])
    return jnp.mean((hidden @ params["second"] - y) ** 2)


@jax.jit
def step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value
