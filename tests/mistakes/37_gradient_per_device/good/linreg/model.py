import jax
import jax.numpy as jnp


def init(dim):
    return {"w": jnp.zeros((dim,)), "b": jnp.zeros(())}


def squared_error(params, x, y):
    return (x @ params["w"] + params["b"] - y) ** 2


def reference_gradient(params, x, y):
    """The gradient of the mean over the whole batch, on one device."""
    return jax.grad(lambda p: jnp.mean(squared_error(p, x, y)))(params)
