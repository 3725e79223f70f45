import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
D, B = 128, 64
rng = np.random.default_rng(0)


DATA = NamedSharding(mesh, P("data"))


@jax.jit
def step(w, x):
    loss, grads = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * grads, loss


@jax.jit
def evaluate(w, images):
    return jnp.mean(jnp.tanh(images @ w) ** 2)


w = jax.device_put(rng.normal(size=(D, D)).astype(np.float32), NamedSharding(mesh, P()))
for _ in range(3):
    w, loss = step(w, jax.device_put(rng.normal(size=(B, D)).astype(np.float32), DATA))
images = rng.normal(size=(B, D)).astype(np.float32)
print(float(loss), float(evaluate(w, images)))  # here
