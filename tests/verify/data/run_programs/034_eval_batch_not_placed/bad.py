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


@jax.jit
def step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


@jax.jit
def evaluate(params, x, y):
    return loss_fn(params, x, y)


params = jax.device_put(init(jax.random.key(0)), SHARDINGS)
for x, y in batches(3):
    params, loss = step(params, jax.device_put(x, DATA), jax.device_put(y, DATA))
for x, y in batches(2):
    loss = evaluate(params, x, y)  # here
print(float(loss))
