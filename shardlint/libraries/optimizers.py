"""optax, and the training state of flax."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import AnyTree, Call, Instance, Native, Unknown, Value, map_tree
from shardlint.libraries.meeting import as_array, broadcast, meet, spec_entry
from shardlint.libraries.registry import function

_MOMENTS = {
    "adam adamw adamax nadam lion lamb radam scale_by_adam amsgrad": ("mu", "nu"),
    "sgd": (),
}


def _state(call: Call, names: tuple[str, ...], params: Value) -> Value:
    """The state of an optimizer: a count, and copies of the parameters that are made like them."""
    from shardlint.libraries.jax_numpy import like

    count = Layout((), "int32", committed=False, memory="device", host=False, varying=frozenset())

    def fresh(leaf: Value) -> Value:
        if not isinstance(leaf, Layout):
            return Layout()
        made = as_array(like(replace(call, name="jax.numpy.zeros_like", args=(as_array(leaf),), keywords={})))
        return replace(made, committed=made.committed and None)

    return Instance(None, {"count": count, **{name: map_tree(fresh, params) for name in names}})


def _maybe_committed(leaf: Value) -> Value:
    """An update, which depends on the state and the parameters too."""
    return replace(leaf, committed=leaf.committed or None) if isinstance(leaf, Layout) else leaf


def _transform(names: tuple[str, ...], call: Call) -> Value:
    direct = call.name.startswith("optax.scale_by")

    def init(again: Call) -> Value:
        params = again.get(0, "params")
        if isinstance(params, Unknown):
            return AnyTree(Unknown())
        state = _state(again, names, params)
        return state if direct else (state, Unknown("the rest of the state"))

    def update(again: Call) -> Value:
        updates, state = again.get(0, "updates"), again.get(1, "state")
        inner = state[0] if isinstance(state, tuple) and state else state
        if isinstance(inner, Instance):
            for name in names:
                map_tree(lambda *pair: broadcast(again, pair), inner.attributes.get(name, Unknown()), updates)
        return (map_tree(_maybe_committed, updates), state)

    return Instance(None, {"init": Native("init", init), "update": Native("update", update)})


for _names, _moments in _MOMENTS.items():
    function(f"optax {_names}")(partial(_transform, _moments))


@function("optax ScaleByAdamState ScaleByLionState TraceState")
def state(call: Call) -> Value:
    """A state as a program writes it."""
    return Instance(None, dict(call.keywords), open=bool(call.args))


@function("optax.apply_updates", "equinox.apply_updates")
def apply_updates(call: Call) -> Value:
    """Parameters like before."""
    return call.get(0, "params")


@function("flax.training.train_state.TrainState.create")
def create(call: Call) -> Value:
    """A state with a step of 0, the parameters, and the state of the optimizer."""
    tx = call.keywords.get("tx", Unknown())
    optimizer = Unknown()
    if isinstance(tx, Instance) and "init" in tx.attributes:
        optimizer = call.interpreter.call(
            tx.attributes["init"], (call.keywords.get("params", Unknown()),), {}, call.place
        )
    attributes = {"step": 0, **call.keywords, "opt_state": optimizer}
    return Instance(None, attributes)


@function(
    "optax l2_loss squared_error softmax_cross_entropy sigmoid_binary_cross_entropy",
    "optax softmax_cross_entropy_with_integer_labels",
)
def loss(call: Call) -> Value:
    """One number for each example, or for each entry."""
    logits, labels = as_array(call.get(0, "logits")), as_array(call.get(1, "labels", 0))
    last = call.function_name
    if last in ("l2_loss", "squared_error"):
        logits, labels = as_array(call.get(0, "predictions")), as_array(call.get(1, "targets", 0))
    if not last.endswith("labels"):
        found = broadcast(call, (logits, labels))
    else:
        found = meet(call, [logits, labels]).shaped(logits.shape, logits.typed_spec)
        if logits.explicit and logits.shape and (axes := spec_entry(logits, -1)):
            call.interpreter.violate("index.split", call.place, array=str(logits), axes="/".join(axes))
            found = replace(found, mesh=None, spec=None)
    found = replace(found, dtype=logits.dtype)
    if "softmax" not in last or not found.shape:
        return found
    return found.shaped(found.shape[:-1], found.typed_spec[:-1] if found.typed_spec is not None else None)
