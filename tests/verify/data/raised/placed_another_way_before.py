import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: `forward` does not move batch|SL213.*batch f32\[8,8\] P\('model'
def loader(spec):
    while True:
        yield put(jnp.ones((8, 8)), *spec)


forward = jax.jit(lambda x: x * 2, in_shardings=NamedSharding(mesh, P("data", "model")))
batch = next(loader(("model", "data")))  # ok: batch = next(loader(("data", "model")))
forward(batch)  # at
