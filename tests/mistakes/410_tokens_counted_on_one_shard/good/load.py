import functools

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def expert_load(layout, chosen, experts):
    """The tokens of each shard in the order of their experts, and how many each expert has."""

    @functools.partial(
        jax.shard_map,
        mesh=layout.mesh,
        in_specs=layout.rows(),
        out_specs=(layout.rows(), P()),
        check_vma=False,
    )
    def on_shard(chosen):
        order = jnp.argsort(chosen, stable=True)
        load = jnp.zeros(experts, jnp.int32).at[chosen].add(1)
        load = jax.lax.psum(load, layout.batch)
        return order, load

    return on_shard(chosen)
