import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def dropout(key, x):
    key = jax.random.fold_in(key, jax.lax.axis_index("data"))
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0)


@jax.jit
def layer(key, w, x):
    h = jnp.tanh(x @ w)
    return jax.shard_map(dropout, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"))(key, h)


rng = np.random.default_rng(0)
w = jax.device_put(rng.normal(size=(512, 512)).astype(np.float32), NamedSharding(mesh, P()))
x = jax.device_put(rng.normal(size=(64, 512)).astype(np.float32), NamedSharding(mesh, P("data")))
for i in range(3):
    x = layer(jax.random.key(i), w, x)
print(x.sum())
