import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: in_shardings.*batch
def loss(params, batch):
    return (batch["x"] @ params).sum()


shardings = ({"x": NamedSharding(mesh, P("data"))},)
compiled = jax.jit(lambda batch: loss(jnp.ones((4, 4)), batch), in_shardings=shardings)
batch = {"x": jnp.ones((8, 4)), "mask": jnp.ones((8,))}  # ok: batch = {"x": jnp.ones((8, 4))}
compiled(batch)  # at
