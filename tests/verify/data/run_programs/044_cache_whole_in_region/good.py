import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def attend(cache, q):
    scores = jnp.einsum("bd,kd->bk", q, cache)
    return jax.nn.softmax(scores) @ cache


f = jax.jit(jax.shard_map(attend, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data")))
rng = np.random.default_rng(0)
cache = jax.device_put(rng.normal(size=(2048, 512)).astype(np.float32), NamedSharding(mesh, P()))
q = jax.device_put(rng.normal(size=(64, 512)).astype(np.float32), NamedSharding(mesh, P("data")))
for _ in range(3):
    y = f(cache, q)
print(y.sum())
