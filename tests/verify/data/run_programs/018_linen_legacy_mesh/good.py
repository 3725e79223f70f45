import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

RULES = (("batch", "data"), ("embed", None), ("mlp", "model"))


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.gelu(nn.Dense(2048)(x))
        h = nn.with_logical_constraint(h, ("batch", "mlp"))
        return nn.Dense(512)(h)


model = Mlp()
x = np.ones((64, 512), np.float32)
params = model.init(jax.random.key(0), x)


@jax.jit
def step(params, x):
    grads = jax.grad(lambda p: jnp.mean((model.apply(p, x) - x) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
    for _ in range(3):
        params = step(params, x)
print(jax.tree.leaves(params)[0].sum())
