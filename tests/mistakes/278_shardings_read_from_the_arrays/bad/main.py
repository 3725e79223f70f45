"""Makes the model, says how much of it lies on the first device, and trains it a little."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from state import Block, create, sample


def held_by(device, variables):
    shards = [shard for leaf in jax.tree.leaves(variables) for shard in leaf.addressable_shards]
    return sum(shard.data.nbytes for shard in shards if shard.device == device)


def train(model, variables, x, steps, rate=0.1):
    @jax.jit
    def step(variables):
        loss, grads = jax.value_and_grad(lambda v: jnp.mean((model.apply(v, x) - 2 * x) ** 2))(variables)
        return jax.tree.map(lambda v, g: v - rate * g, variables, grads), loss

    for _ in range(steps):
        variables, loss = step(variables)
    return variables, loss


def main():
    mesh, model, x = Mesh(np.array(jax.devices()).reshape(1, 8), ("data", "model")), Block(256), sample(256)
    variables, _ = create(model, mesh, jax.random.key(0), x)
    print("bytes on the first device:", held_by(jax.devices()[0], variables))
    variables, loss = train(model, variables, x, 3)


if __name__ == "__main__":
    main()
