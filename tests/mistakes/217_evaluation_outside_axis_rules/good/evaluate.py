import jax
import jax.numpy as jnp

from runtime import sharded


class Evaluator:
    """Token accuracy over a finite list of batches."""

    def __init__(self, model, mesh):
        self.model = model
        self.mesh = mesh
        self._fn = jax.jit(self._accuracy)

    def _accuracy(self, params, batch):
        logits = self.model.apply({"params": params}, batch["ids"])
        return jnp.mean(logits.argmax(-1) == batch["tags"])

    def __call__(self, params, batches):
        with sharded(self.mesh):
            acc = [self._fn(params, b) for b in batches]
        return sum(map(float, acc)) / len(acc)
