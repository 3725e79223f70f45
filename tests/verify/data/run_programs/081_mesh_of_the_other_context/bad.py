import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.interpreters import pxla
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, HIDDEN, LAYERS = 256, 1024, 3
tx = optax.adam(1e-3)


def current_mesh():
    return pxla.thread_resources.env.physical_mesh


def shard(tree, spec):
    mesh = current_mesh()
    if mesh.empty:
        return tree
    return jax.device_put(tree, NamedSharding(mesh, spec))


def init(key):
    params = []
    for key in jax.random.split(key, LAYERS):
        up, down = jax.random.split(key)
        params.append(
            {
                "up": shard(jax.random.normal(up, (WIDTH, HIDDEN)) * 0.02, P("fsdp")),
                "down": shard(jax.random.normal(down, (HIDDEN, WIDTH)) * 0.02, P("fsdp")),
            }
        )
    return params


@jax.jit
def train_step(params, opt, x):
    def loss_fn(params):
        h = x
        for layer in params:
            h = h + jax.nn.relu(h @ layer["up"]) @ layer["down"]
        return jnp.mean((h - 1.0) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, loss


with jax.set_mesh(Mesh(np.array(jax.devices()), ("fsdp",))):
    params = init(jax.random.key(0))
    opt = tx.init(params)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = shard(rng.normal(size=(64, WIDTH)).astype(np.float32), P("fsdp"))
        params, opt, loss = train_step(params, opt, x)  # here
    print(float(loss))
