"""shard_map without its check, under one name."""

import functools

import jax


def manual(mesh, in_specs, out_specs):
    """Decorator: run a function once on every device of `mesh`."""
    return functools.partial(jax.shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
