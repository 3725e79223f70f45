import equinox as eqx
import jax
import jax.numpy as jnp

model = eqx.nn.MLP(6, 4, 8, 1, key=jax.random.PRNGKey(0))
x = jnp.ones((8, 2, 6))


def forward(model, x):
    return jax.vmap(model)(x)


step = eqx.filter_pmap(forward)  # ok: step = eqx.filter_pmap(forward, in_axes=(None, 0))
# says: `step` maps axis 0 of every leaf of `model`, which has no such axis: it needs one row for each of 8 devices
step(model, x)  # at
