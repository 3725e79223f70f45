"""Compiles a step for a mesh and keeps it."""

import jax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import steps


class Updater:
    def __init__(self, task, mesh):
        self._task = task
        replicated, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
        self._step = jax.jit(
            steps.train_step,
            static_argnums=(0,),
            donate_argnums=(1,),
            in_shardings=(replicated, split),
            out_shardings=replicated,
        )

    def __call__(self, params, batch):
        return self._step(self._task, params, batch)
