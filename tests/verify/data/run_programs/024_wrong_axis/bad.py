import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def row_parallel(x, w):
    return jax.lax.psum(x @ w, "data")  # here


f = jax.jit(
    jax.shard_map(
        row_parallel,
        mesh=mesh,
        in_specs=(P("data", "model"), P("model")),
        out_specs=P("data"),
        check_vma=False,
    )
)
rng = np.random.default_rng(0)
w = jax.device_put(rng.normal(size=(512, 2048)).astype(np.float32), NamedSharding(mesh, P("model")))
x = jax.device_put(rng.normal(size=(64, 512)).astype(np.float32), NamedSharding(mesh, P("data", "model")))
for _ in range(3):
    y = f(x, w)
print(y.sum())
