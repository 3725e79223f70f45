import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
D, B = 128, 64
rng = np.random.default_rng(0)


LEVELS = np.linspace(1.0, 0.1, 1000, dtype=np.float32)


def loss(key, w, x):
    t = jax.random.randint(key, (x.shape[0],), 0, 1000)  # here SL407
    level = jnp.asarray(LEVELS)[t][:, None]
    return jax.lax.pmean(jnp.mean(jnp.tanh((x * level) @ w) ** 2), "data")


f = jax.jit(jax.shard_map(loss, mesh=mesh, in_specs=(P(), P(), P("data")), out_specs=P()))
w = jax.device_put(rng.normal(size=(D, D)).astype(np.float32), NamedSharding(mesh, P()))
x = jax.device_put(rng.normal(size=(B, D)).astype(np.float32), NamedSharding(mesh, P("data")))
print(float(f(jax.random.key(0), w, x)))
