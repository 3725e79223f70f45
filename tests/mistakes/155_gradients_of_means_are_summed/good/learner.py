"""A linear softmax classifier that is trained on all devices."""
import functools

import jax
import jax.numpy as jnp


def init(key, features, classes):
    return {"w": 0.1 * jax.random.normal(key, (features, classes)), "b": jnp.zeros(classes)}


def cross_entropy(params, x, y):
    logp = jax.nn.log_softmax(x @ params["w"] + params["b"])
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=-1))


class Learner:
    """Plain SGD; the parameters are kept once for each device."""

    def __init__(self, lr):
        self.lr = lr
        self.update = jax.pmap(functools.partial(self._update), axis_name="devices")

    def _update(self, params, x, y):
        loss, grads = jax.value_and_grad(cross_entropy)(params, x, y)
        grads = jax.lax.pmean(grads, axis_name="devices")
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
        params = jax.tree.map(lambda p, g: p - self.lr * g, params, grads)
        return params, jax.lax.pmean(loss, axis_name="devices"), norm
