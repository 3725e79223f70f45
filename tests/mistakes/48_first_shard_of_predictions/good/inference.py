"""Inference on all local devices."""

import functools

import jax
import numpy as np
from flax import jax_utils
from flax.training import common_utils

from model import predict


class Predictor:
    def __init__(self, model, variables):
        self.variables = jax_utils.replicate(variables)
        self._predict = jax.pmap(functools.partial(predict, model))

    def __call__(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Predictions for a batch that the number of devices divides."""
        outputs = self._predict(self.variables, common_utils.shard(x))
        return jax.device_get(jax.tree.map(lambda leaf: leaf.reshape(-1), outputs))
