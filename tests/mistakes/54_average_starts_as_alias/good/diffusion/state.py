"""State of the denoiser's training."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    params: Any
    average: Any
    opt_state: optax.OptState

    @classmethod
    def create(cls, params, tx: optax.GradientTransformation) -> "State":
        return cls(params=params, average=jax.tree.map(jnp.copy, params), opt_state=tx.init(params))

    def apply(self, updates, opt_state, decay: float) -> "State":
        params = optax.apply_updates(self.params, updates)
        average = optax.incremental_update(params, self.average, 1 - decay)
        return State(params, average, opt_state)
