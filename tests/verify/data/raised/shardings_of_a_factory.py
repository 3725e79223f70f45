import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: in_shardings does not have the structure of the arguments of `self.step`.*write one entry for each argument
class Trainer:
    def __init__(self, shardings):
        self.step = jax.jit(self.update, in_shardings=tuple(shardings))

    def update(self, params, batch):
        return params - batch.mean()

    def fit(self, params, batch):
        return self.step(params, batch)  # at


def shardings(names):
    return [NamedSharding(mesh, P(name)) for name in names]


Trainer(shardings(["data", "data", "model"])).fit(  # ok: Trainer(shardings(["data", "data"])).fit(
    jnp.ones(8), jnp.ones((8, 4))
)
