import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
ACCUMULATE, BATCH, WIDTH, HIDDEN = 8, 64, 512, 1024
tx = optax.sgd(1e-2, momentum=0.9)


def loss_fn(params, x, y):
    return jnp.mean((jax.nn.gelu(x @ params["up"]) @ params["down"] - y) ** 2)


@jax.jit
def train_step(params, opt, batch):
    grads = jax.tree.map(jnp.zeros_like, params)
    for number in range(ACCUMULATE):
        x, y = (part[number] for part in batch)  # here
        grads = jax.tree.map(jnp.add, grads, jax.grad(loss_fn)(params, x, y))
    grads = jax.tree.map(lambda g: g / ACCUMULATE, grads)
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt


def load(rng):
    x = rng.normal(size=(ACCUMULATE, BATCH, WIDTH)).astype(np.float32)
    return jax.device_put((x, x[..., ::-1].copy()), NamedSharding(mesh, P("data")))


rng = np.random.default_rng(0)
params = {
    "up": rng.normal(size=(WIDTH, HIDDEN)).astype(np.float32) * 0.05,
    "down": rng.normal(size=(HIDDEN, WIDTH)).astype(np.float32) * 0.05,
}
params = jax.device_put(params, NamedSharding(mesh, P()))
opt = jax.device_put(tx.init(params), NamedSharding(mesh, P()))
for _ in range(2):
    params, opt = train_step(params, opt, load(rng))
print(float(params["up"].sum()))
