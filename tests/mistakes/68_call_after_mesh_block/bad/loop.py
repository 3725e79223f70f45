import jax
import numpy as np

from layers import mse


@jax.jit
def step(params, x, y):
    loss, grads = jax.value_and_grad(mse)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


@jax.jit
def validation_loss(params, x, y):
    return mse(params, x, y)


def batch(rng, d, n=16):
    x = rng.normal(size=(n, d)).astype(np.float32)
    return x, np.roll(x, 1, axis=1)


def train(mesh, params, d, steps=3):
    rng = np.random.default_rng(0)
    with jax.set_mesh(mesh):
        for _ in range(steps):
            params, loss = step(params, *batch(rng, d))
    final = validation_loss(params, *batch(rng, d))  # mistake: spec-needs-mesh
    return params, float(loss), float(final)
