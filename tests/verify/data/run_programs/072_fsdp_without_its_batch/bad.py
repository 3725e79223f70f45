import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
D, B = 128, 64
rng = np.random.default_rng(0)


SPLIT = NamedSharding(mesh, P("data"))


@jax.jit
def step(params, x, y):
    def loss_fn(params):
        h = jnp.tanh(x @ params["up"])
        return jnp.mean((h @ params["down"] - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


params = {"up": rng.normal(size=(D, 4 * D)), "down": rng.normal(size=(4 * D, D))}
params = jax.tree.map(lambda p: jax.device_put(p.astype(np.float32), SPLIT), params)
BATCH = NamedSharding(mesh, P())
for _ in range(3):
    x, y = (jax.device_put(rng.normal(size=(B, D)).astype(np.float32), BATCH) for _ in range(2))
    params, loss = step(params, x, y)  # here
print(float(loss))
