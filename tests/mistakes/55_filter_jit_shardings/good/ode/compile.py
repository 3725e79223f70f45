"""How functions are compiled in this project."""

from functools import partial

import equinox as eqx
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("batch",))
replicated = NamedSharding(mesh, P())
by_batch = NamedSharding(mesh, P("batch"))

compiled = partial(eqx.filter_jit)


def place(model, opt_state, batch):
    return eqx.filter_shard((model, opt_state), replicated) + (eqx.filter_shard(batch, by_batch),)
