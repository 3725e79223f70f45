import jax
import jax.numpy as jnp


def step(state, x, times):
    return state["w"] * times + x


state = {"w": jnp.ones((8, 4)), "step": jnp.zeros((), jnp.int32)}  # ok: state = {"w": jnp.ones((8, 4))}
# says: `step` maps axis 0 of every leaf of `state`, which has no such axis: it needs one row for each of 8 devices
jax.pmap(step, axis_name="batch", static_broadcasted_argnums=(2,))(state, jnp.ones((8, 4)), 3)  # at
