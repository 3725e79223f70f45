"""A layer of experts that are split over the devices; every device sees all tokens."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def route(tokens, router):
    return jnp.argmax(tokens @ router, axis=-1)


def run_local(tokens, chosen, first, up, down):
    """The part of the output that this device's experts give."""
    out = jnp.zeros_like(tokens)
    for number in range(up.shape[0]):
        mine = (chosen == first + number)[:, None]
        out = out + jnp.where(mine, jax.nn.relu(tokens @ up[number]) @ down[number], 0)
    return out


def expert_layer(tokens, params, mesh, axis_name="expert"):
    up, down = params["up"], params["down"]
    n_experts, width, hidden = up.shape
    assert down.shape == (n_experts, hidden, width)
    chosen = route(tokens, params["router"])

    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(), P(axis_name, None, None), P(axis_name, None, None)),
        out_specs=P(),
    )
    def on_each(tokens, chosen, up, down):
        n_local = up.shape[0]
        first = jax.lax.axis_index(axis_name) * n_experts  # mistake: shard-offset
        out = run_local(tokens, chosen, first, up, down)
        return jax.lax.psum(out, axis_name)

    return on_each(tokens, chosen, up, down)
