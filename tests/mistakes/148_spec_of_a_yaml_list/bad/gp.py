"""Conjugate-gradient Gaussian process regression with a distributed Gram matrix."""
from functools import partial

import jax
import jax.numpy as jnp


def rbf(a, b, lengthscale):
    d2 = ((a[:, None] - b[None]) ** 2).sum(-1)
    return jnp.exp(-0.5 * d2 / lengthscale**2)


def gram(layout, x):
    k = layout.kernel
    f = jax.jit(
        lambda x: rbf(x, x, k["lengthscale"]) + k["ridge"] * jnp.eye(x.shape[0]),
        out_shardings=layout["gram"],
    )
    return f(x)


@partial(jax.jit, static_argnums=2)
def cg(k, y, iters):
    def body(carry, _):
        a, r, p, rr = carry
        kp = k @ p
        alpha = rr / (p @ kp)
        a, r = a + alpha * p, r - alpha * kp
        new = r @ r
        return (a, r, r + (new / rr) * p, new), new

    start = (jnp.zeros_like(y), y, y, y @ y)
    (a, *_), hist = jax.lax.scan(body, start, None, length=iters)
    return a, hist
