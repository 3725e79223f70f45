import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
D, B = 128, 64
rng = np.random.default_rng(0)


key = jax.random.PRNGKey(0)


def noisy(w, x):
    noise = jax.random.normal(key, x.shape)  # here SL407
    return (x + 0.1 * noise) @ w


f = jax.jit(jax.shard_map(noisy, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data")))
w = jax.device_put(rng.normal(size=(D, D)).astype(np.float32), NamedSharding(mesh, P()))
x = jax.device_put(rng.normal(size=(B, D)).astype(np.float32), NamedSharding(mesh, P("data")))
print(float(f(w, x).sum()))
