import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
WIDTH, HIDDEN = 256, 1024
SPECS = {"both": P(None, None, "model"), "down": P("model")}
SHAPES = {"both": (WIDTH, 2, HIDDEN), "down": (HIDDEN, WIDTH)}


def apply(w, x):
    gate, up = jnp.einsum("bsd,dcf->cbsf", x, w["both"])
    return x + (jax.nn.silu(gate) * up) @ w["down"]


@jax.jit
def step(w, x):
    value, grads = jax.value_and_grad(lambda w: jnp.mean(apply(w, x) ** 2))(w)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), value


rng = np.random.default_rng(0)
w = {key: rng.normal(size=shape).astype(np.float32) * 0.02 for key, shape in SHAPES.items()}
w = {key: jax.device_put(w[key], NamedSharding(mesh, SPECS[key])) for key in w}
x = jax.device_put(rng.normal(size=(16, 64, WIDTH)).astype(np.float32), NamedSharding(mesh, P("data")))
for _ in range(2):
    w, value = step(w, x)
print(value)
