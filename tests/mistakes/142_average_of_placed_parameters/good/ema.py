from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class EmaState(NamedTuple):
    count: jax.Array
    shadow: Any


class Ema:
    """Bias-corrected exponential moving average kept in float32."""

    def __init__(self, decay: float = 0.999):
        self.decay = decay

    def init(self, params) -> EmaState:
        shadow = jax.tree.map(lambda p: jnp.zeros_like(p, dtype=jnp.float32), params)
        return EmaState(jnp.zeros((), jnp.int32), shadow)

    def update(self, state: EmaState, params) -> EmaState:
        d = self.decay
        shadow = jax.tree.map(lambda s, p: d * s + (1 - d) * p.astype(jnp.float32), state.shadow, params)
        return EmaState(state.count + 1, shadow)

    def value(self, state: EmaState, like):
        fix = 1 - self.decay ** state.count
        return jax.tree.map(lambda s, p: (s / fix).astype(p.dtype), state.shadow, like)
