import functools

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def make_mesh():
    return Mesh(np.array(jax.devices()), axis_names=("data",))


def compile_step(fn, cfg, mesh):
    rep = NamedSharding(mesh, P())
    data = NamedSharding(mesh, P("data"))
    return jax.jit(
        functools.partial(fn, cfg),
        in_shardings=(rep, data),
        out_shardings=(rep, rep),
    )
