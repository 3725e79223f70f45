import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("fsdp", "tensor"))
BASE = (("batch", "fsdp"), ("mlp", "tensor"), ("embed", None))
RULES = BASE + (("embed", "fsdp"),)
WIDTH, HIDDEN = 256, 1024


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        init = nn.initializers.lecun_normal()
        up = nn.with_logical_partitioning(init, ("embed", "mlp"))
        down = nn.with_logical_partitioning(init, ("mlp", "embed"))
        h = nn.relu(nn.Dense(HIDDEN, use_bias=False, kernel_init=up)(x))
        return x + nn.Dense(WIDTH, use_bias=False, kernel_init=down)(h)


model = Mlp()


@jax.jit
def step(w, x):
    value, grads = jax.value_and_grad(lambda w: jnp.mean(model.apply(w, x) ** 2))(w)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), value


def init(key):
    return model.init(key, jnp.zeros((1, WIDTH)))


specs = nn.get_partition_spec(jax.eval_shape(init, jax.random.key(0)))
shardings = nn.logical_to_mesh_sharding(specs, mesh, RULES)  # here
w = nn.unbox(jax.jit(init, out_shardings=shardings)(jax.random.key(0)))
x = jax.device_put(np.ones((64, WIDTH), np.float32), NamedSharding(mesh, P("fsdp")))
for _ in range(2):
    w, value = step(w, x)
print(value)
