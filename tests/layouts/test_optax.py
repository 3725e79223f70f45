"""The states that are predicted of optimizers are those that optax makes."""

from __future__ import annotations

import pytest

from tests.layouts.compare import Outcome, note, observe
from tests.programs import release, skip_without

skip_without("jax")
skip_without("optax")

HEAD = """\
from typing import Any
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.{kind},) * 2)
w = jax.device_put(jnp.ones((16, 8)), NamedSharding(mesh, P("a", "b")))
params = {{"w": w, "b": jax.device_put(jnp.ones((8,)), NamedSharding(mesh, P("b")))}}
"""
OPTIMIZERS = [
    "optax.adam(1e-3)", "optax.adamw(optax.constant_schedule(1e-3))", "optax.sgd(1e-2)", "optax.sgd(1e-2, momentum=0.9)",
    "optax.lion(1e-3)", "optax.lamb(1e-3)", "optax.amsgrad(1e-3)", "optax.adagrad(1e-3)", "optax.radam(1e-3)",
    "optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.scale(-1e-3))",
    "optax.chain(optax.adaptive_grad_clip(0.1), optax.add_decayed_weights(0.1), optax.adamax(1e-3))",
    "optax.chain(*[optax.clip(1.0), optax.trace(0.9), optax.scale_by_schedule(optax.linear_schedule(1.0, 0.0, 5))])",
    "optax.MultiSteps(optax.adam(1e-3), every_k_schedule=2)", "optax.adadelta(1e-3)", "optax.yogi(1e-3)",
]  # fmt: skip
USE = """\
tx = {}
state = tx.init(params)
grads = jax.tree.map(lambda x: x * 2, params)
updates, state2 = tx.update(grads, state, params)
new = optax.apply_updates(params, updates)
inside = jax.jit(tx.init)(params)
"""
STATE = """\
class State(train_state.TrainState):
    batch_stats: Any

state = State.create(apply_fn=None, params=params, tx=optax.adam(1e-3), batch_stats=params)
plain = train_state.TrainState.create(apply_fn=None, params=params, tx=optax.sgd(1e-3, 0.9))
grads = jax.tree.map(lambda x: x * 2, params)
state2 = state.apply_gradients(grads=grads, batch_stats=grads)
a = state.opt_state[0].mu["w"]
b = state2.params["w"]
c = state2.batch_stats["b"]
d = plain.opt_state[0].trace["w"]
e = jax.jit(lambda s: s.params["w"] * 2)(state)
"""


@pytest.mark.parametrize("kind", ["Explicit", pytest.param("Auto", marks=pytest.mark.longer)])
def test_what_is_predicted_of_optax_is_what_it_does(kind: str) -> None:
    texts = [HEAD.format(kind=kind) + text for text in (*map(USE.format, OPTIMIZERS), STATE)]
    outcome = Outcome()
    for text, seen in zip(texts, observe(texts), strict=True):
        note(outcome, text, seen, (*release("jax"), 0))
    assert not outcome.wrong, outcome.wrong[0]
    # The compiler decides where arrays over Auto axes lie.
    assert kind == "Auto" or outcome.known >= 0.9 * outcome.arrays, str(outcome)
