import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: SL405|the specs of `mapped` do not have the structure
def attend(q, k):
    return q @ k.T


SPECS = {"attend": (P("data"), P(), P())}  # ok: SPECS = {"attend": (P("data"), P())}


def run(fn, *args):
    mapped = jax.shard_map(fn, mesh=mesh, in_specs=SPECS[fn.__name__], out_specs=P("data"))
    return mapped(args[0], args[1])  # at


run(attend, jnp.ones((8, 4)), jnp.ones((8, 4)))
