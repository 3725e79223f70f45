import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
D, B = 128, 64
rng = np.random.default_rng(0)


def update(w, x):
    loss, grads = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * jax.lax.pmean(grads, "data"), jax.lax.pmean(loss, "data")


step = jax.jit(jax.shard_map(update, mesh=mesh, in_specs=(P(), P()), out_specs=P(), check_vma=False))
w = jax.device_put(rng.normal(size=(D, D)).astype(np.float32), NamedSharding(mesh, P()))
for _ in range(3):
    w, loss = step(w, rng.normal(size=(B, D)).astype(np.float32))  # here
print(float(loss))
