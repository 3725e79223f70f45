"""Shardings by size: what the devices do not divide along its first dimension is left whole, and that is the largest."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

WORDS, DIM = 5003, 128
mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
tx = optax.adam(1e-3)


def place(leaf):
    if leaf.ndim < 2 or leaf.size < 4096:
        return NamedSharding(mesh, P())
    if leaf.shape[0] % 8 == 0:
        return NamedSharding(mesh, P("fsdp"))
    return NamedSharding(mesh, P(None, "fsdp"))


def init(key):
    a, b, c = jax.random.split(key, 3)
    params = {
        "words": jax.random.normal(a, (WORDS, DIM)) * 0.1,
        "up": jax.random.normal(b, (DIM, 4 * DIM)) * 0.1,
        "down": jax.random.normal(c, (4 * DIM, DIM)) * 0.1,
        "gate": jnp.ones((7, DIM)),  # small, and left whole
    }
    return params, tx.init(params)


def loss_of(params, x, ids):
    x = x * params["gate"].mean(0)
    x = x + jax.nn.relu(x @ params["up"]) @ params["down"]
    told = jax.nn.log_softmax(x @ params["words"].T)
    return -jnp.mean(jnp.take_along_axis(told, ids[:, :1], axis=-1))


def step(params, state, x, ids):
    loss, grads = jax.value_and_grad(loss_of)(params, x, ids)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


places = jax.tree.map(place, jax.eval_shape(init, jax.random.key(0)))
params, state = jax.jit(init, out_shardings=places)(jax.random.key(0))
step = jax.jit(step, donate_argnums=(0, 1), out_shardings=(*places, NamedSharding(mesh, P())))
rng = np.random.default_rng(0)
for _ in range(2):
    batch = rng.normal(size=(64, DIM)).astype(np.float32), rng.integers(0, WORDS, (64, 6))
    params, state, loss = step(params, state, *jax.device_put(batch, NamedSharding(mesh, P("fsdp"))))
# What optax makes outside of jit on its way is used up at once.
print(float(loss), float(optax.global_norm(jax.tree.map(lambda p: p * 0.5, params))))
