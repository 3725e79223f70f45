"""Training and evaluation of one experiment."""

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from vision import net


class Experiment:
    def __init__(self, mesh: Mesh, lr: float):
        self.data_sharding = NamedSharding(mesh, P("data"))
        self.replicated = NamedSharding(mesh, P())
        self.tx = optax.sgd(lr, momentum=0.9)
        self.params = jax.device_put(net.init(jax.random.key(0)), self.replicated)
        self.opt_state = self.tx.init(self.params)
        self._predict = jax.jit(net.logits)
        self._step = jax.jit(self._update)

    def _update(self, params, opt_state, images, labels):
        grads = jax.grad(net.loss)(params, images, labels)
        updates, opt_state = self.tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state

    def train(self, loader):
        for images, labels in loader:
            images = jax.device_put(images, self.data_sharding)
            labels = jax.device_put(labels, self.data_sharding)
            self.params, self.opt_state = self._step(self.params, self.opt_state, images, labels)

    def evaluate(self, loader):
        """Accuracy over a loader."""
        right = total = 0
        for images, labels in loader:
            scores = self._predict(self.params, jax.device_put(images, self.data_sharding))
            self.last_scores = scores
            right += int(np.sum(np.argmax(scores, axis=-1) == labels))
            total += len(labels)
        return right / total
