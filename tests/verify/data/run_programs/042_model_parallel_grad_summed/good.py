import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def update(w, x, y):
    def loss(w):
        return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

    grads = jax.lax.psum(jax.grad(loss)(w), "data")
    return w - 0.1 * grads


step = jax.jit(
    jax.shard_map(
        update,
        mesh=mesh,
        in_specs=(P(None, "model"), P("data"), P("data", "model")),
        out_specs=P(None, "model"),
        check_vma=False,
    )
)
rng = np.random.default_rng(0)
w = jax.device_put(rng.normal(size=(512, 2048)).astype(np.float32), NamedSharding(mesh, P(None, "model")))
x = jax.device_put(rng.normal(size=(64, 512)).astype(np.float32), NamedSharding(mesh, P("data")))
y = jax.device_put(rng.normal(size=(64, 2048)).astype(np.float32), NamedSharding(mesh, P("data", "model")))
for _ in range(3):
    w = step(w, x, y)
print(w.sum())
