import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("fsdp",))
on_device = NamedSharding(mesh, P("fsdp"))
on_host = NamedSharding(mesh, P("fsdp"), memory_kind="pinned_host")


@jax.jit
def step(params, moments, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((jnp.tanh(x @ p) - x) ** 2))(params)
    moments = 0.9 * jax.device_put(moments, on_device) + grads
    return params - 0.1 * moments, jax.device_put(moments, on_host), loss


@jax.jit
def layers(params, x):
    def layer(h, _):
        stored = jax.device_put(jnp.tanh(h @ params), on_host)
        return jax.device_put(stored, on_device.with_memory_kind("device")), None

    return jax.lax.scan(layer, x, None, length=2)[0]


params = jax.device_put(np.eye(256, dtype=np.float32), on_device)
moments = jax.device_put(np.zeros((256, 256), np.float32), on_host)
x = jax.device_put(np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32), on_device)
for _ in range(3):
    params, moments, loss = step(params, moments, x)
print(float(loss), layers(params, x).shape, moments.sharding.memory_kind)
