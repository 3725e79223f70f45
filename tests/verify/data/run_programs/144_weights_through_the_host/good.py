"""A logger takes the weights to the host for the number that it writes."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
split = NamedSharding(mesh, P("fsdp"))


def init(key):
    a, b = jax.random.split(key)
    return {"up": jax.random.normal(a, (256, 1024)) / 16, "down": jax.random.normal(b, (1024, 256)) / 32}


@jax.jit
def step(params, x):
    def loss(p):
        return jnp.mean((jax.nn.silu(x @ p["up"]) @ p["down"] - x) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


@jax.jit
def spread(weights):
    return jax.tree.map(lambda w: (w.mean(), w.std()), weights)


class Log:
    def __init__(self):
        self.rows = []

    def write(self, params, loss):
        kept = dict(params)
        self.rows.append((float(loss), jax.tree.map(float, spread(kept))))


params = jax.jit(init, out_shardings=split)(jax.random.key(0))
log = Log()
for number in range(3):
    x = np.random.default_rng(number).normal(size=(64, 256)).astype(np.float32)
    params, loss = step(params, jax.device_put(x, split))
    log.write(params, loss)

# A checkpoint goes by the host, and its arrays are placed again.
saved = jax.device_get(params)
params = jax.device_put(saved, split)
params, loss = step(params, jax.device_put(x, split))
print(log.rows[-1], float(loss))
