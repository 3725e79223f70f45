"""optax, and the training state of flax."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import (
    AnyTree,
    Call,
    Instance,
    Native,
    Unknown,
    Value,
    children,
    map_tree,
)
from shardlint.libraries.meeting import as_array, broadcast, common
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
        return (
            like(replace(call, name="jax.numpy.zeros_like", args=(as_array(leaf),), keywords={}))
            if isinstance(leaf, Layout)
            else Layout()
        )

    return Instance(None, {"count": count, **{name: map_tree(fresh, params) for name in names}})


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
        return (map_tree(partial(apply_at, again), updates), state)

    return Instance(None, {"init": Native("init", init), "update": Native("update", update)})


for _names, _moments in _MOMENTS.items():
    function(f"optax {_names}")(partial(_transform, _moments))


@function("optax ScaleByAdamState ScaleByLionState TraceState")
def state(call: Call) -> Value:
    """A state as a program writes it."""
    return Instance(None, dict(call.keywords), open=bool(call.args))


@function("optax.apply_updates", "equinox.apply_updates")
def apply_updates(call: Call) -> Value:
    """Parameters like before, that differ on devices as the updates do."""
    params, updates = call.get(0, "params"), call.get(1, "updates")
    gradients = gradients_in(updates)
    if not gradients:
        return params
    along = common([as_array(gradients[0])])

    def updated(leaf: Value) -> Value:
        array = as_array(leaf)
        return replace(array, varying=along.varying, differs=array.differs | along.differs, figure=along.figure)

    return map_tree(updated, params) if not isinstance(params, Unknown) else AnyTree(updated(params))


def gradients_in(tree: Value) -> list[Layout]:
    """The gradients in a tree of which all or some parts are known."""
    parts = children(tree)
    if parts is None:
        leaf = tree.leaf if isinstance(tree, AnyTree) else tree
        return [as_array(leaf)] if is_gradient(leaf) else []
    return [one for _, part in parts for one in gradients_in(part)]


def is_gradient(leaf: Value) -> bool:
    """Whether an array is a gradient that each device took of its own data."""
    return isinstance(leaf, Layout) and leaf.figure is not None and leaf.figure.kind == "gradient"


def apply_at(call: Call, leaf: Value) -> Value:
    """An update that an optimizer makes of a gradient here."""
    return replace(leaf, figure=replace(leaf.figure, place=call.place)) if is_gradient(leaf) else leaf


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
    """One number for each example."""
    logits, labels = as_array(call.get(0, "logits")), as_array(call.get(1, "labels"))
    if call.interpreter.axes:
        both = common([logits, labels])
        logits = replace(logits.along(both), figure=None)
    if "softmax" in call.name and logits.shape:
        return logits.shaped(logits.shape[:-1], logits.spec[:-1] if logits.spec is not None else None)
    return logits
