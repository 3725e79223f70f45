"""Compares the layer with one that has all experts in one place."""

import jax
import jax.numpy as jnp

from experts import expert_layer
from model import init, reference


def main():
    mesh = jax.make_mesh((8,), ("expert",), axis_types=(jax.sharding.AxisType.Auto,))
    params = init(jax.random.key(0))
    tokens = jax.random.normal(jax.random.key(1), (64, 8))
    given = jax.jit(lambda x: expert_layer(x, params, mesh))(tokens)
    wanted = reference(tokens, params)
    wrong = jnp.sum(jnp.any(jnp.abs(given - wanted) > 1e-3, axis=-1))
    print("tokens that are right:", "all" if wrong == 0 else "not all")


if __name__ == "__main__":
    main()
