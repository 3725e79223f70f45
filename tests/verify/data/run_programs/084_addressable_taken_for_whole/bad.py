import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("fsdp",))
WIDTH, HIDDEN = 512, 2048
tx = optax.adamw(1e-3)


def place(x, sharding):
    """Puts an array on the mesh, unless it is split already."""
    if not x.is_fully_addressable:
        return x
    return jax.device_put(x, sharding)  # here


def init(key):
    one, two = jax.random.split(key)
    return {
        "up": jax.random.normal(one, (WIDTH, HIDDEN)) * 0.02,
        "down": jax.random.normal(two, (HIDDEN, WIDTH)) * 0.02,
        "scale": jnp.ones(()),
    }


@jax.jit
def train_step(params, opt, x):
    def loss_fn(params):
        return jnp.mean((jax.nn.silu(x @ params["up"]) @ params["down"] * params["scale"] - x) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, loss


split = NamedSharding(mesh, P("fsdp"))
shapes = jax.eval_shape(init, jax.random.key(0))
layout = jax.tree.map(lambda a: split if a.ndim else NamedSharding(mesh, P()), shapes)
params = jax.jit(init, out_shardings=layout)(jax.random.key(0))
opt = tx.init(params)
params = jax.tree.map(lambda a: place(a, NamedSharding(mesh, P())), params)
rng = np.random.default_rng(0)
for _ in range(3):
    x = jax.device_put(rng.normal(size=(64, WIDTH)).astype(np.float32), split)
    params, opt, loss = train_step(params, opt, x)
print(float(loss))
