"""Training."""

import jax.numpy as jnp
import optax
from flax import nnx


@nnx.jit
def train_step(model: nnx.Module, optimizer: nnx.Optimizer, x, y):
    def loss_fn(model):
        return jnp.mean((model(x) - y) ** 2)

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def fit(model, batches, lr):
    optimizer = nnx.Optimizer(model, optax.adam(lr), wrt=nnx.Param)
    for x, y in batches:
        loss = train_step(model, optimizer, x, y)
    return float(loss)
