import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
WIDTH, HIDDEN, BATCH, PARTS = 256, 512, 64, 4


def loss(w, x):
    return jnp.mean((jax.nn.relu(x @ w["up"]) @ w["down"] - x) ** 2)


def parts(x):
    return x.reshape(PARTS, BATCH // PARTS, *x.shape[1:])


@jax.jit
def step(w, x):
    def one(total, part):
        return jax.tree.map(jnp.add, total, jax.grad(loss)(w, part)), None

    grads, _ = jax.lax.scan(one, jax.tree.map(jnp.zeros_like, w), parts(x))  # here
    return jax.tree.map(lambda p, g: p - 0.1 / PARTS * g, w, grads)


rng = np.random.default_rng(0)
w = {"up": rng.normal(size=(WIDTH, HIDDEN)) * 0.02, "down": rng.normal(size=(HIDDEN, WIDTH)) * 0.02}
w = jax.device_put(jax.tree.map(lambda p: p.astype(np.float32), w), NamedSharding(mesh, P()))
x = rng.normal(size=(BATCH, 32, WIDTH)).astype(np.float32)
for _ in range(2):
    w = step(w, jax.device_put(x, NamedSharding(mesh, P("data"))))
print(w["up"].sum())
