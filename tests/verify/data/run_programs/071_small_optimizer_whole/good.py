import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
WHOLE, SPLIT = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
optimizer = optax.adam(1e-3)


@jax.jit
def step(params, state, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean(jnp.tanh(x @ p["w"]) ** 2))(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


params = {"w": jax.device_put(jnp.ones((16, 16)), SPLIT)}
state = optimizer.init(params)
for seed in range(3):
    x = np.random.default_rng(seed).normal(size=(16, 16)).astype(np.float32)
    params, state, loss = step(params, state, jax.device_put(x, SPLIT))
print(float(loss))
