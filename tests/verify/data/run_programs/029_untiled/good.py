import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def regroup(x):
    return jax.lax.all_gather(x, "model", axis=1, tiled=True)


f = jax.jit(
    jax.shard_map(regroup, mesh=mesh, in_specs=P("data", "model"), out_specs=P("data"), check_vma=False)
)
x = jax.device_put(np.ones((64, 2048), np.float32), NamedSharding(mesh, P("data", "model")))
for _ in range(2):
    y = f(x)
print(y.shape)
