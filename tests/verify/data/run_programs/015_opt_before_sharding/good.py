import optax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

D, F, B = 512, 2048, 64


def init(key):
    k1, k2 = jax.random.split(key)
    return {
        "up": {"w": jax.random.normal(k1, (D, F)) * 0.02, "b": jnp.zeros((F,))},
        "down": {"w": jax.random.normal(k2, (F, D)) * 0.02, "b": jnp.zeros((D,))},
    }


SPECS = {"up": {"w": P(None, "model"), "b": P("model")}, "down": {"w": P("model", None), "b": P()}}
SHARDINGS = jax.tree.map(lambda spec: NamedSharding(mesh, spec), SPECS)
DATA = NamedSharding(mesh, P("data"))


def apply(params, x):
    h = jax.nn.gelu(x @ params["up"]["w"] + params["up"]["b"])
    return x + h @ params["down"]["w"] + params["down"]["b"]


def loss_fn(params, x, y):
    return jnp.mean((apply(params, x) - y) ** 2)


def batches(steps):
    rng = np.random.default_rng(0)
    for _ in range(steps):
        x = rng.normal(size=(B, D)).astype(np.float32)
        yield x, np.roll(x, 1, axis=1)


opt = optax.adamw(1e-3)


@jax.jit
def step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = opt.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


params = init(jax.random.key(0))
params = jax.device_put(params, SHARDINGS)
state = opt.init(params)
for x, y in batches(3):
    params, state, loss = step(params, state, jax.device_put(x, DATA), jax.device_put(y, DATA))
print(float(loss))
