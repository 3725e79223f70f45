import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))


def loss_fn(w, x, y):
    h = jnp.tanh(x @ w["up"])
    return jnp.mean((h @ w["down"] - y) ** 2)


def update(w, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(w, x, y)
    loss = jax.lax.pmean(loss, "data")
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), loss  # here SL402


step = jax.jit(
    jax.shard_map(
        update, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=(P(), P()), check_vma=False
    )
)

rng = np.random.default_rng(0)
w = {
    "up": rng.normal(size=(512, 2048)).astype(np.float32) * 0.02,
    "down": rng.normal(size=(2048, 512)).astype(np.float32) * 0.02,
}
w = jax.device_put(w, NamedSharding(mesh, P()))
for i in range(3):
    x = jax.device_put(rng.normal(size=(64, 512)).astype(np.float32), NamedSharding(mesh, P("data")))
    w, loss = step(w, x, x)
print(float(loss))
