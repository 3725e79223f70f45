"""A gated linear recurrence whose time is split over devices."""
import functools

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "time"))
D = 512


def decay_sums(gates):
    mine = jnp.cumsum(gates, axis=1)
    every = lax.all_gather(mine[:, -1], "time")
    before = jnp.arange(lax.axis_size("time")) < lax.axis_index("time")
    return mine + jnp.sum(jnp.where(before[:, None, None], every, 0.0), 0)[:, None]


def mixer(x, w_gate, w_out):
    gates = jax.nn.log_sigmoid(x @ w_gate)
    weights = jnp.exp(decay_sums(gates))
    return (x * weights) @ w_out


mixer = jax.shard_map(mixer, mesh=mesh, in_specs=(P("data", "time"), P(), P()), out_specs=P("data", "time"))


def model(params, x):
    for layer in params:
        x = x + mixer(x, layer["gate"], layer["out"])
    return x


def init(key, layers=2):
    keys = jax.random.split(key, 2 * layers).reshape(layers, 2)
    return [{"gate": jax.random.normal(a, (D, D)) * 0.02, "out": jax.random.normal(b, (D, D)) * 0.02} for a, b in keys]


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))
state = tx.init(params)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, state, x, y):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean(jnp.square(model(p, x) - y)))(params)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


for i in range(3):
    x = jax.random.normal(jax.random.key(i), (8, 256, D))
    x = jax.device_put(x, NamedSharding(mesh, P("data", "time")))
    params, state, loss = step(params, state, x, -x)
    print(i, loss)
