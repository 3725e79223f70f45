"""The data-parallel step."""

import jax
import optax
from jax.sharding import PartitionSpec as P

from compat import manual
from model import loss


def make_train_step(mesh, tx, axis="batch"):
    @jax.jit
    @manual(mesh, in_specs=(P(), P(), P(axis)), out_specs=(P(), P(), P()))
    def train_step(params, opt_state, batch):
        value, grads = jax.value_and_grad(loss)(params, batch)
        value = jax.lax.pmean(value, axis)
        updates, opt_state = tx.update(grads, opt_state, params)  # mistake: psum-forgotten
        params = optax.apply_updates(params, updates)
        return params, opt_state, value

    return train_step
