import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: a tracer is used after its trace has ended
class Rotary:
    def __init__(self):
        self.kept = None

    def table(self, n):
        if self.kept is None:  # ok: if True:
            self.kept = jnp.arange(n) * 0.5
        return self.kept


rotary = Rotary()


@jax.jit
def block(x):
    return x * rotary.table(x.shape[0])


@jax.jit
def head(x):
    return x + rotary.table(x.shape[0])


head(block(jnp.ones(8)))  # at
