import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
SPECS = {"up": P("model", None, None), "down": P("model", None, None)}


def loss(params, x, y):
    def layer(h, w):
        return h + jax.nn.relu(h @ w["up"]) @ w["down"], None

    h, _ = jax.lax.scan(layer, x, params)  # here
    return jnp.mean((h - y) ** 2)


@jax.jit
def train(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), value


rng = np.random.default_rng(0)
params = {
    "up": rng.normal(size=(8, 256, 1024)).astype(np.float32) * 0.02,
    "down": rng.normal(size=(8, 1024, 256)).astype(np.float32) * 0.02,
}
params = {name: jax.device_put(w, NamedSharding(mesh, SPECS[name])) for name, w in params.items()}
x, y = (jax.device_put(jnp.ones((32, 256)), NamedSharding(mesh, P("data"))) for _ in range(2))
for _ in range(2):
    params, value = train(params, x, y)
print(value)
