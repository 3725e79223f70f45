"""Logistic regression on a noisy parity-like task."""
import jax
import jax.numpy as jnp
import numpy as np


def sample(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 12)).astype(np.float32)
    y = (x[:, :6].sum(1) + 0.3 * rng.normal(size=n) > 0).astype(np.float32)
    return x, y


def loss(params, x, y):
    logits = x @ params["w"] + params["b"]
    return jnp.mean(jnp.logaddexp(0.0, logits) - y * logits)


def accuracy(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] > 0) == (y > 0.5))


def init():
    return {"w": jnp.zeros((12,)), "b": jnp.zeros(())}


@jax.jit
def update(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), value


evaluate = jax.jit(accuracy)
