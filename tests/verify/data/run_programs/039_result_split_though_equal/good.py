import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def gather_loss(x, w):
    y = jnp.tanh(x @ w)
    return y / 4


f = jax.jit(
    jax.shard_map(
        gather_loss, mesh=mesh, in_specs=(P("data"), P(None, "model")), out_specs=P("data", "model")
    )
)
rng = np.random.default_rng(0)
w = jax.device_put(rng.normal(size=(512, 2048)).astype(np.float32), NamedSharding(mesh, P(None, "model")))
x = jax.device_put(rng.normal(size=(64, 512)).astype(np.float32), NamedSharding(mesh, P("data")))
for _ in range(3):
    y = f(x, w)
print(y.shape)
