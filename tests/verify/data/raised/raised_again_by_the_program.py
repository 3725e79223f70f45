import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: different devices.*batch f32\[8\] on device 1
class StepFailed(RuntimeError):
    pass


step = jax.jit(lambda w, batch: w + batch)


def train(w, batch):
    try:
        return step(w, batch)  # at
    except ValueError as error:
        raise StepFailed("step 3 failed") from error


batch = jax.device_put(jnp.ones(8), jax.devices()[1])  # ok: batch = put(jnp.ones(8), "data")
train(put(jnp.ones(8), "data"), batch)
