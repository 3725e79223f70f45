"""Which axis each parameter is split on, and how to materialise it."""
import jax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

AXIS = "fsdp"


def spec_for(param):
    return P(None, AXIS) if param.ndim == 2 else P()


def specs(params):
    return jax.tree.map(spec_for, params)


def place(mesh, params):
    return jax.tree.map(lambda p: jax.device_put(p, NamedSharding(mesh, spec_for(p))), params)


def materialise(params):
    def full(p):
        if p.ndim != 2:
            return p
        return lax.all_gather(p, AXIS, axis=1, tiled=True)

    return jax.tree.map(full, params)
