import functools

import jax
from jax.sharding import NamedSharding, PartitionSpec as P

from parallel.state import get_mesh


def sharded(*axes):
    """Constrain the result of a function; does nothing before init_parallel()."""

    def decorate(fn):
        mesh = get_mesh()  # mistake: mesh-bound-at-definition

        @functools.wraps(fn)
        def inner(*args, **kwargs):
            out = fn(*args, **kwargs)
            if mesh is None:
                return out
            return jax.lax.with_sharding_constraint(out, NamedSharding(mesh, P(*axes)))

        return inner

    return decorate
