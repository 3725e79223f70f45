import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: buffer an earlier call donated.*self.state\['w'\] f32\[64\]
update = jax.jit(lambda state: jax.tree.map(lambda x: x * 0.9, state), donate_argnums=0)
measure = jax.jit(lambda state: sum(jax.tree.leaves(jax.tree.map(jnp.sum, state))))


class Learner:
    def __init__(self):
        self.state = {"w": put(jnp.ones(64), "data")}

    def step(self):
        return update(self.state)  # ok: self.state = update(self.state)

    def log(self):
        return float(measure(self.state))  # at


learner = Learner()
learner.step()
learner.log()
