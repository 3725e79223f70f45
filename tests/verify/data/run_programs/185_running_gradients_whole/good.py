"""Accumulation in a scan: a constraint makes the running gradients whole, an all-reduce of all in each round."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

D, LAYERS, BATCH, MICRO = 256, 4, 128, 4
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
tx = optax.sgd(0.1)
SPECS = {f"w{i}": P("data", None) for i in range(LAYERS)}
shardings = {k: NamedSharding(mesh, s) for k, s in SPECS.items()}


def loss_fn(params, x):
    h = x
    for i in range(LAYERS):
        h = jnp.tanh(h @ params[f"w{i}"])
    return jnp.mean((h - x) ** 2)


def constrain(tree):
    return jax.tree.map(jax.lax.with_sharding_constraint, tree, shardings)


@jax.jit
def train_step(params, opt_state, batch):

    def body(grads, x):
        loss, new = jax.value_and_grad(loss_fn)(params, x)
        return constrain(jax.tree.map(jnp.add, grads, new)), loss

    zeros = jax.tree.map(jnp.zeros_like, params)
    grads, losses = jax.lax.scan(body, zeros, batch)
    updates, opt_state = tx.update(jax.tree.map(lambda g: g / MICRO, grads), opt_state, params)
    return optax.apply_updates(params, updates), opt_state, losses.mean()


def main():
    rng = np.random.default_rng(0)
    params = {k: rng.normal(size=(D, D)).astype(np.float32) * D**-0.5 for k in SPECS}
    params = jax.device_put(params, shardings)
    opt_state = tx.init(params)
    for _ in range(4):
        batch = rng.normal(size=(MICRO, BATCH // MICRO, D)).astype(np.float32)
        batch = jax.device_put(batch, NamedSharding(mesh, P(None, "data")))
        params, opt_state, loss = train_step(params, opt_state, batch)
        print(float(loss))


if __name__ == "__main__":
    main()
