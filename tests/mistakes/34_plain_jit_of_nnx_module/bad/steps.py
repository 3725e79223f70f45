"""Compiled steps, made once for a mesh."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def _train_step(model: nnx.Module, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> jax.Array:
    def loss_fn(model):
        return jnp.mean((model(x) - y) ** 2)

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)  # mistake: jit-of-nnx-module
    return loss


class Steps:
    def __init__(self, mesh: Mesh):
        self.replicated = NamedSharding(mesh, PartitionSpec())
        self.batch = NamedSharding(mesh, PartitionSpec("data"))
        self.train = jax.jit(_train_step)  # mistake: jit-of-nnx-module

    def replicate(self, model: nnx.Module) -> None:
        nnx.update(model, jax.device_put(nnx.state(model), self.replicated))
