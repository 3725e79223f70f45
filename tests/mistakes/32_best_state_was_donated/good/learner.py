"""A learner that remembers its best parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import network


class Learner:
    def __init__(self, mesh: Mesh, tx: optax.GradientTransformation, seed: int = 0):
        params = jax.device_put(network.init(jax.random.key(seed)), NamedSharding(mesh, P()))
        self.tx = tx
        self.params = params
        self.opt_state = tx.init(params)
        self.best_params = None
        self.best_loss = float("inf")
        self._update = jax.jit(self._update_fn, donate_argnums=(0, 1))

    def _update_fn(self, params, opt_state, x, y):
        grads = jax.grad(network.loss)(params, x, y)
        updates, opt_state = self.tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state

    def update(self, x, y) -> None:
        self.params, self.opt_state = self._update(self.params, self.opt_state, x, y)

    def evaluate(self, x, y) -> float:
        loss = float(network.loss(self.params, x, y))
        if loss < self.best_loss:
            self.best_loss = loss
            self.best_params = jax.tree.map(jnp.copy, self.params)
        return loss

    def export(self) -> dict[str, np.ndarray]:
        """The best parameters, on the host."""
        return {name: np.asarray(value) for name, value in self.best_params.items()}
