"""Compiles functions for a mesh."""

from collections.abc import Callable

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def to_shardings(mesh: Mesh, specs):
    def one(spec):
        return NamedSharding(mesh, spec)

    return jax.tree.map(one, specs, is_leaf=lambda s: isinstance(s, PartitionSpec))


def compile_for(mesh: Mesh, fn: Callable, in_specs, out_specs, donate: tuple[int, ...] = ()) -> Callable:
    """`fn` with its arguments and results laid out by specs."""
    return jax.jit(
        fn,
        in_shardings=to_shardings(mesh, in_specs),
        out_shardings=to_shardings(mesh, out_specs),
        donate_argnums=donate,
    )
