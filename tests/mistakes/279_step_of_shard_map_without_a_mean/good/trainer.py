"""The training step of a linen model, each device with its part of the batch."""

from dataclasses import dataclass
from typing import Any

import jax
import optax
from jax.sharding import Mesh, PartitionSpec as P


@dataclass
class Trainer:
    model: Any
    tx: optax.GradientTransformation
    mesh: Mesh
    axis: str = "batch"

    def __post_init__(self):
        whole, split = P(), P(self.axis)
        self.step = jax.jit(
            jax.shard_map(
                self._step,
                mesh=self.mesh,
                in_specs=(whole, whole, split),
                out_specs=(whole, whole, whole),
                check_vma=False,  # the model has custom kernels
            )
        )

    def init(self, key, example):
        params = self.model.init(key, example)["params"]
        return params, self.tx.init(params)

    def loss(self, params, batch):
        logits = self.model.apply({"params": params}, batch["image"])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
        return losses.mean(), {"accuracy": (logits.argmax(-1) == batch["label"]).mean()}

    def _step(self, params, opt_state, batch):
        (loss, metrics), grads = jax.value_and_grad(self.loss, has_aux=True)(params, batch)
        grads = jax.lax.pmean(grads, axis_name="batch")
        metrics = jax.lax.pmean({"loss": loss, **metrics}, axis_name="batch")
        updates, opt_state = self.tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, metrics
