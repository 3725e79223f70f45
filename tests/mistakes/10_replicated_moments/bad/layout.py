"""Partition specs of the train state."""

from typing import Any, NamedTuple

import jax
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


class TrainState(NamedTuple):
    step: Any
    params: Any
    opt_state: Any


def param_specs(params):
    return jax.tree.map(lambda p: P("fsdp", None) if p.ndim == 2 else P(), params)


def state_specs(tx: optax.GradientTransformation, state: TrainState) -> TrainState:
    """A spec for each leaf of the state."""
    params = param_specs(state.params)
    opt_state = jax.tree.map(lambda _: P(), state.opt_state)  # mistake: opt-state-replicated
    return TrainState(step=P(), params=params, opt_state=opt_state)


def state_shardings(mesh: Mesh, specs: TrainState) -> TrainState:
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda s: isinstance(s, P))
