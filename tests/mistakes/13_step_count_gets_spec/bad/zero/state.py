"""Train state."""

import jax
import jax.numpy as jnp
import optax
from flax import struct


@struct.dataclass
class State:
    step: jax.Array
    params: dict
    opt_state: optax.OptState

    @classmethod
    def create(cls, params, tx):
        return cls(step=jnp.zeros((), jnp.int32), params=params, opt_state=tx.init(params))
