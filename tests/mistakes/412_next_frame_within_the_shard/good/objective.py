import functools

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from frames import behind, predicted


def make_objective(mesh):
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(None, "time", None)),
        out_specs=(P(), P()),
    )
    def objective(weights, frames):
        guess = predicted(weights, frames)
        target = behind(frames, "time")
        error = jnp.sum((guess - target) ** 2, axis=-1)
        padded = jnp.sum(jnp.all(target == 0, axis=-1)[0])
        return jax.lax.pmean(jnp.mean(error), "time"), jax.lax.psum(padded, "time")

    return objective
