"""Compiles and holds the training step."""

import jax
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from sae import model


class SaeTrainer:
    def __init__(self, mesh: Mesh, tx: optax.GradientTransformation, penalty: float):
        self.tx, self.penalty = tx, penalty
        self.param_shardings = {name: NamedSharding(mesh, spec) for name, spec in model.SPECS.items()}
        whole = NamedSharding(mesh, P())
        self.step = jax.jit(
            self._step,
            in_shardings=(self.param_shardings, whole, whole),
            out_shardings=(self.param_shardings, whole, whole),
        )

    def _step(self, params, opt_state, activations):
        value, grads = jax.value_and_grad(model.loss)(params, activations, self.penalty)
        updates, opt_state = self.tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, value
