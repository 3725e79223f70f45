import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2, 2, 2), ("replica", "fsdp", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 3)
batch = NamedSharding(mesh, P(("replica", "fsdp")))


def loss_of(params, x):
    for up, down in params:
        x = x + jnp.tanh(x @ up) @ down
    return jnp.mean((x @ params[0][0]) ** 2)


@jax.jit
def step(params, x):
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss


up, down = NamedSharding(mesh, P("fsdp", "tensor")), NamedSharding(mesh, P("tensor", "fsdp"))
params = [(jax.device_put(jnp.ones((128, 256)), up), jax.device_put(jnp.ones((256, 128)), down)) for _ in range(2)]
for _ in range(2):
    x = jax.device_put(np.ones((96, 128), np.float32), batch)
    params, loss = step(params, x)
print(loss)
