"""Optimizers and their state."""

import jax
import optax

from fsdp.sharding import fsdp_shardings


def build_optimizer(peak_lr: float, warmup: int, total: int) -> optax.GradientTransformation:
    schedule = optax.warmup_cosine_decay_schedule(0.0, peak_lr, warmup, total)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))


def create_opt_state(tx: optax.GradientTransformation, params, mesh):
    """The state of `tx` for parameters that are already on `mesh`."""
    opt_state = jax.jit(tx.init)(params)  # mistake: jit-init-loses-sharding
    return opt_state
