"""Partition rules give the shardings of all parameters, and the function that makes these is not given them."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

D, F = 256, 1024


def init(key):
    a, b, c = jax.random.split(key, 3)
    return {
        "enter": jax.random.normal(a, (D, F)) / 16,
        "leave": jax.random.normal(b, (F, D)) / 32,
        "head": {"w": jax.random.normal(c, (D, 64)) / 16, "b": jnp.zeros(64)},
    }


def rule(path, leaf):
    spec = P(None, "zero") if leaf.ndim == 2 and leaf.shape[1] >= leaf.shape[0] else P("zero") if leaf.ndim == 2 else P()
    return NamedSharding(mesh, spec)


def loss_of(params, x, y):
    h = jax.nn.relu(x @ params["enter"]) @ params["leave"]
    return jnp.mean((h @ params["head"]["w"] + params["head"]["b"] - y) ** 2)


@jax.jit
def step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


mesh = jax.make_mesh((8,), ("zero",), axis_types=(jax.sharding.AxisType.Auto,))
tx = optax.adam(1e-3)
shapes = jax.eval_shape(init, jax.random.key(0))
places = jax.tree_util.tree_map_with_path(rule, shapes)
print(sum(not one.is_fully_replicated for one in jax.tree.leaves(places)), "arrays are split")
make = jax.jit(init)
params = make(jax.random.key(0))  # here
state = tx.init(params)
rng = np.random.default_rng(0)
for _ in range(2):
    x, y = rng.normal(size=(64, D)).astype(np.float32), rng.normal(size=(64, 64)).astype(np.float32)
    params, state, loss = step(params, state, *jax.device_put((x, y), NamedSharding(mesh, P("zero"))))
print(float(loss))
