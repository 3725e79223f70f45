"""How functions are compiled in this project."""

from functools import partial

import equinox as eqx
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("batch",))
replicated = NamedSharding(mesh, P())
by_batch = NamedSharding(mesh, P("batch"))

compiled = partial(eqx.filter_jit, in_shardings=(replicated, None, by_batch))  # mistake: filter-jit-shardings


def place(model, opt_state, batch):
    return eqx.filter_shard((model, opt_state), replicated) + (batch,)
