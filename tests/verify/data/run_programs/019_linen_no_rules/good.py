import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        x = nn.with_logical_constraint(x, ("batch", "embed"))
        h = nn.silu(nn.Dense(self.width)(x))
        return x + nn.Dense(x.shape[-1])(h)


model = Block(2048)
x = jax.device_put(np.ones((64, 512), np.float32), NamedSharding(mesh, P("data")))
with jax.set_mesh(mesh), nn.logical_axis_rules((("batch", "data"), ("embed", "model"))):
    params = jax.jit(model.init)(jax.random.key(0), x)
    step = jax.jit(lambda p, x: model.apply(p, x))
    for _ in range(3):
        x = step(params, x)
print(x.sum())
