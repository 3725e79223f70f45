"""Scores text embeddings with a stack of tensor-parallel blocks."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from layers import PARAM_SPECS, feed_forward, init_block


class Scorer:
    def __init__(self, devices, width=32, inner=128, depth=3, seed=0):
        self.mesh = Mesh(np.array(devices), ("model",))
        self.block = feed_forward(self.mesh)
        shardings = jax.tree.map(lambda s: NamedSharding(self.mesh, s), PARAM_SPECS)
        keys = jax.random.split(jax.random.key(seed), depth + 1)
        self.blocks = [jax.device_put(init_block(k, width, inner), shardings) for k in keys[:-1]]
        self.head = jax.random.normal(keys[-1], (width,)) * width**-0.5
        self._forward = jax.jit(self.forward)

    def forward(self, blocks, head, x):
        for params in blocks:
            x = self.block(params, x)
        return x @ head

    def __call__(self, embeddings):
        return np.asarray(self._forward(self.blocks, self.head, jnp.asarray(embeddings)))
