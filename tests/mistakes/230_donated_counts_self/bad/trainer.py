"""Trainer that owns the mesh, the optimizer and the compiled step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from config import TrainConfig


class Trainer:
    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg
        self.mesh = Mesh(np.asarray(jax.devices()), ("fsdp",))
        self.tx = optax.adamw(cfg.lr)
        self.weights = NamedSharding(self.mesh, P("fsdp"))
        self.rows = NamedSharding(self.mesh, P("fsdp"))
        # parameters and optimizer state are replaced in every step: reuse their memory
        self.step = jax.jit(self._step, donate_argnums=(1, 2))  # mistake: donate-index

    def init(self, key: jax.Array):
        def make(key):
            keys = jax.random.split(key, self.cfg.depth)
            return [jax.random.normal(k, (self.cfg.width, self.cfg.width)) * self.cfg.width**-0.5 for k in keys]

        params = jax.jit(make, out_shardings=self.weights)(key)
        return params, self.tx.init(params)

    def loss(self, params, key, x):
        h = x + 0.01 * jax.random.normal(key, x.shape)
        for w in params:
            h = h + jnp.tanh(h @ w)
        return jnp.mean((h - x) ** 2)

    def _step(self, params, opt_state, key, x):
        key, sub = jax.random.split(key)
        loss, grads = jax.value_and_grad(self.loss)(params, sub, x)
        updates, opt_state = self.tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, key, loss

    def batches(self):
        rng = np.random.default_rng(0)
        for _ in range(self.cfg.steps):
            x = rng.normal(size=(self.cfg.batch, self.cfg.width)).astype(np.float32)
            yield jax.device_put(x, self.rows)
