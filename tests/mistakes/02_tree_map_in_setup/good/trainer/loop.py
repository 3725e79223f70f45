"""The training loop."""

import jax
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from . import layout, model


class Trainer:
    def __init__(self, data_parallel: int, model_parallel: int, lr: float = 1e-3):
        self.mesh = layout.make_mesh(data_parallel, model_parallel)
        self.tx = optax.adamw(lr)
        self.params = None
        self.opt_state = None
        self._step = jax.jit(self._train_step, donate_argnums=(0, 1))

    def setup(self, seed: int) -> None:
        """Create the parameters and the optimizer state on the mesh."""
        self.params = model.init(jax.random.key(seed))
        shardings = layout.shardings_for(self.params, self.mesh)
        self.params = jax.tree.map(jax.device_put, self.params, shardings)
        self.opt_state = self.tx.init(self.params)

    def _train_step(self, params, opt_state, x, y):
        value, grads = jax.value_and_grad(model.loss)(params, x, y)
        updates, opt_state = self.tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, value

    def fit(self, batches):
        sharding = NamedSharding(self.mesh, P("data"))
        for x, y in batches:
            x, y = jax.device_put((x, y), sharding)
            self.params, self.opt_state, value = self._step(self.params, self.opt_state, x, y)
        return float(value)
