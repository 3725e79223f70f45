from functools import partial

import jax
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

AXIS = "batch"


def data_parallel(fn, mesh: Mesh):
    """fn(params, x, y) -> (loss, grads) on one shard; returns the global one."""

    @jax.jit
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(AXIS), P(AXIS)),
        out_specs=(P(), P()),
        check_vma=False,
    )
    def wrapped(params, x, y):
        loss, grads = fn(params, x, y)
        return lax.pmean(loss, AXIS), grads  # mistake: missing-pmean

    return wrapped
