import argparse

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

import meshes
from blocks import Block


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", default="2x4")
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=32)
    args = parser.parse_args()

    mesh = meshes.from_flag(args.mesh)
    block = Block(mesh, args.dim, args.hidden)
    weights = jax.device_put(block.init(jax.random.key(0)), NamedSharding(mesh, P()))
    x = jax.device_put(jnp.ones((8, args.dim)), NamedSharding(mesh, P("data")))

    @jax.jit
    def step(weights, x):
        loss, grads = jax.value_and_grad(lambda w: jnp.mean(block(w, x) ** 2))(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), loss

    for _ in range(2):
        weights, loss = step(weights, x)
    print("final loss", float(loss))


if __name__ == "__main__":
    main()
