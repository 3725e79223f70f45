import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class State(NamedTuple):
    step: jax.Array
    params: Any
    opt_state: Any


class Engine:
    def __init__(self, tx, mesh):
        self.tx = tx
        self.mesh = mesh
        self.update = jax.jit(self._update, donate_argnames=("state",))  # mistake: use-after-donate
        self.evaluate = jax.jit(self._loss)

    def create(self, params):
        return State(jnp.zeros((), jnp.int32), params, self.tx.init(params))

    def _loss(self, params, batch):
        pred = jnp.tanh(batch["x"] @ params["w1"]) @ params["w2"]
        return jnp.mean((pred - batch["y"]) ** 2)

    def _update(self, state, batch):
        loss, grads = jax.value_and_grad(self._loss)(state.params, batch)
        updates, opt_state = self.tx.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        return State(state.step + 1, params, opt_state), loss
