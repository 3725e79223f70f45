"""ZeRO-1: moments split over the data axis, parameters whole."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",))
whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))


def init(key, depth=3, width=1024):
    return {f"layer{i}": jax.random.normal(k, (width, width)) / width**0.5 for i, k in enumerate(jax.random.split(key, depth))}


def loss_fn(params, x, y):
    for name in sorted(params):
        x = jax.nn.tanh(x @ params[name])
    return jnp.mean((x - y) ** 2)


tx = optax.adam(1e-3)
params = jax.device_put(init(jax.random.key(0)), whole)
moments = jax.tree.map(lambda a: split if a.ndim == 2 else whole, jax.eval_shape(tx.init, params))
opt_state = jax.jit(tx.init, out_shardings=moments)(params)


def step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


step = jax.jit(step, donate_argnums=(0, 1))
rng = np.random.default_rng(0)
for i in range(4):
    x = jax.device_put(rng.standard_normal((64, 1024), dtype=np.float32), split)
    params, opt_state, loss = step(params, opt_state, x, jnp.sin(x))  # here
    print(i, float(loss))
