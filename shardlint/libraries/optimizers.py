"""optax, and the training state of flax linen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    Call,
    ClassValue,
    FunctionValue,
    Instance,
    Native,
    Unknown,
    Value,
    known_items,
    map_tree,
    tree_children,
    tree_leaves,
)
from shardlint.libraries.meeting import (
    broadcast_values,
    common_properties,
    fresh_array,
    layout_as_array,
    mark_computed,
)
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass

# The states of transforms, by the names of their fields: those in _SCALARS are numbers, the others like the parameters.
_FIELDS = {
    "scale_by_adam scale_by_adamax scale_by_radam scale_by_yogi scale_by_belief": "count mu nu",
    "scale_by_amsgrad": "count mu nu nu_max",
    "scale_by_lion": "count mu",
    "scale_by_rms": "nu",
    "scale_by_rss": "sum_of_squares",
    "scale_by_adadelta": "e_g e_x",
    "scale_by_schedule": "count",
    "trace": "trace",
    "ema": "count ema",
    "clip clip_by_global_norm clip_by_block_rms adaptive_grad_clip add_decayed_weights centralize identity scale": "",
    "scale_by_learning_rate scale_by_trust_ratio scale_by_sign set_to_zero keep_params_nonnegative": "",
    "scale_by_param_block_rms scale_by_param_block_norm": "",
}
_SCALARS = ("count",)
# What optimizers are chains of; "rate" keeps a count where the learning rate is a schedule.
_CHAINS = {
    "adam nadam": "scale_by_adam rate",
    "adamw nadamw": "scale_by_adam add_decayed_weights rate",
    "adamax": "scale_by_adamax rate",
    "adamaxw": "scale_by_adamax add_decayed_weights rate",
    "amsgrad": "scale_by_amsgrad rate",
    "adabelief": "scale_by_belief rate",
    "adadelta": "add_decayed_weights scale_by_adadelta rate",
    "adagrad": "scale_by_rss rate",
    "lamb": "scale_by_adam add_decayed_weights scale_by_trust_ratio rate",
    "lion": "scale_by_lion add_decayed_weights rate",
    "radam": "scale_by_radam rate",
    "yogi": "scale_by_yogi rate",
    "sgd": "momentum rate",
}
Init = Callable[[Call, Value], Value]


def zeros_like_tree(call: Call, params: Value) -> Value:
    """Zeros that are made like the parameters."""
    from shardlint.libraries.jax_numpy import array_like

    def zeros_of_leaf(leaf: Value) -> Value:
        if not isinstance(leaf, Layout):
            return AnyTree(Layout()) if isinstance(leaf, Unknown) else Unknown("a moment")
        made = layout_as_array(array_like(replace(call, name="jax.numpy.zeros_like", args=(leaf,), keywords={})))
        return replace(made, committed=made.committed and None)

    return map_tree(zeros_of_leaf, params)


def make_counter(call: Call) -> Layout:
    """A count of steps."""
    return replace(
        fresh_array(call, (), "int32"), committed=None if call.interpreter.mesh is not None else False
    )


def _state_fields(names: str, call: Call, params: Value) -> Value:
    made = {
        name: make_counter(call) if name in _SCALARS else zeros_like_tree(call, params) for name in names.split()
    }
    return Instance(None, made)


STATES: dict[str, Init] = {
    name: partial(_state_fields, fields) for names, fields in _FIELDS.items() for name in names.split()
}


def state_of_rate(rate: Value) -> Init:
    """The state of a learning rate: a count for a schedule, nothing for a number."""
    if isinstance(rate, int | float | Layout):
        return STATES["scale"]
    if isinstance(rate, FunctionValue | Native):
        return STATES["scale_by_schedule"]
    return lambda call, params: Unknown("the state of a learning rate")


def _chain_transforms(names: str, call: Call) -> Value:
    """An optimizer by the transforms that it is made of."""
    pieces = dict(STATES)
    momentum = call.argument_at(1, "momentum", None)
    pieces["momentum"] = STATES["identity" if momentum is None else "trace"]
    if isinstance(momentum, Unknown):
        pieces["momentum"] = lambda again, params: Unknown("momentum")
    pieces["rate"] = state_of_rate(call.argument_at(0, "learning_rate"))
    return make_transformation(lambda again, params: tuple(pieces[name](again, params) for name in names.split()))


def make_transformation(init: Init) -> Value:
    """A transformation with what makes its state; its updates are like those that it is given."""
    def begin_state(call: Call) -> Value:
        params = call.argument_at(0, "params")
        return AnyTree(Unknown()) if isinstance(params, Unknown) else init(call, params)

    def update_state(call: Call) -> Value:
        updates, state = call.argument_at(0, "updates"), call.argument_at(1, "state")
        for moments in _moments_of_state(state):
            updates = map_tree(partial(_combine_with_moment, call), updates, moments)
        return (
            map_tree(lambda leaf: _mark_maybe_committed(apply_gradient(call, leaf)), updates),
            map_tree(mark_computed, state),
        )

    return Instance(None, {"init": Native("init", begin_state), "update": Native("update", update_state)})


def _combine_with_moment(call: Call, update: Value, moment: Value) -> Value:
    """An update after arithmetic with a moment, which may be split in another way."""
    found = broadcast_values(call, (moment, update))
    same = not isinstance(update, Layout) or not isinstance(moment, Layout) or update.spec == moment.spec
    return update if same else replace(update, mesh=found.mesh, spec=found.spec)


def _mark_maybe_committed(leaf: Value) -> Value:
    """An update, which depends on the state and the parameters too."""
    return replace(leaf, committed=leaf.committed or None, asked=None) if isinstance(leaf, Layout) else leaf


def _moments_of_state(state: Value) -> Iterator[Value]:
    """The parts of a state that `update` combines with the updates."""
    if isinstance(state, Instance):
        yield from (one for name, one in state.attributes.items() if name in ("mu", "nu", "trace", "ema"))
    if isinstance(state, tuple | Instance):
        for _, part in tree_children(state) or ():
            if isinstance(part, tuple | Instance):
                yield from _moments_of_state(part)


for _names, _pieces in _CHAINS.items():
    register_function(f"optax {_names}")(partial(_chain_transforms, _pieces))
for _name, _piece in STATES.items():
    register_function(f"optax.{_name}")(lambda call, piece=_piece: make_transformation(piece))  # type: ignore[misc]


def find_inits(values: tuple[Value, ...]) -> list[Value] | None:
    """The `init` functions of transforms; None where one is not known."""
    found = [one.attributes.get("init", MISSING) if isinstance(one, Instance) else MISSING for one in values]
    return None if MISSING in found else found


def begin_states(call: Call, inits: list[Value], params: Value) -> tuple[Value, ...]:
    """The states that some `init` functions make."""
    return tuple(call.interpreter.call_value(one, (params,), {}, call.place) for one in inits)


@register_function("optax chain named_chain")
def chain_transforms(call: Call) -> Value:
    """Transforms one after the other: the state is a tuple of theirs."""
    given = (known_items(call.args[0]) if len(call.args) == 1 else None) or call.args
    inits = None if call.open or call.function_name == "named_chain" else find_inits(given)
    if inits is None:
        return make_transformation(lambda again, params: AnyTree(Unknown()))
    return make_transformation(lambda again, params: begin_states(again, inits, params))


@register_function("optax MultiSteps")
def accumulate_gradients(call: Call) -> Value:
    """Gradients that are added up over several steps, like the parameters."""
    inits = find_inits((call.argument_at(0, "opt"),))

    def init_accumulator(again: Call, params: Value) -> Value:
        inner = begin_states(again, inits, params)[0] if inits is not None else Unknown("the inner state")
        added = zeros_like_tree(again, params)
        return Instance(
            None,
            {
                "mini_step": make_counter(again),
                "gradient_step": make_counter(again),
                "inner_opt_state": inner,
                "acc_grads": added,
                "skip_state": (),
            },
        )

    return make_transformation(init_accumulator)


_SCHEDULES = """constant_schedule linear_schedule polynomial_schedule exponential_decay cosine_decay_schedule
warmup_cosine_decay_schedule warmup_exponential_decay_schedule warmup_constant_schedule piecewise_constant_schedule
piecewise_interpolate_schedule linear_onecycle_schedule cosine_onecycle_schedule sgdr_schedule join_schedules"""


@register_function(f"optax {_SCHEDULES}", f"optax.schedules {_SCHEDULES}")
def make_schedule(call: Call) -> Value:
    """A number for each step."""
    return Native("schedule", lambda again: Layout((), "float32"))


@register_function("optax.apply_updates", "equinox.apply_updates")
def apply_updates(call: Call) -> Value:
    """Parameters like before, that differ on devices as the updates do."""
    params, updates = call.argument_at(0, "params"), call.argument_at(1, "updates")
    gradients = gradients_of_tree(updates) or wrong_arrays_of_tree(updates)
    if not gradients:
        return map_tree(mark_computed, params)
    along = common_properties([layout_as_array(gradients[0])])

    def updated_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        both = array.differs | along.differs
        return replace(
            array, varying=along.varying, differs=both, figure=along.figure, statistic=along.statistic, asked=None
        )

    return (
        map_tree(updated_leaf, params) if not isinstance(params, Unknown) else AnyTree(updated_leaf(params))
    )


def gradients_of_tree(tree: Value) -> list[Layout]:
    """The gradients in a tree of which all or some parts are known."""
    parts = tree_children(tree)
    if parts is None:
        leaf = tree.leaf if isinstance(tree, AnyTree) else tree
        return [layout_as_array(leaf)] if is_gradient(leaf) else []
    return [one for _, part in parts for one in gradients_of_tree(part)]


def wrong_arrays_of_tree(tree: Value) -> list[Layout]:
    """The arrays of a tree that are wrong unless they are divided."""
    arrays = [leaf for _, leaf in tree_leaves(tree) if isinstance(leaf, Layout)]
    return [one for one in arrays if one.statistic is not None and one.statistic.is_wrong]


def is_gradient(leaf: Value) -> bool:
    """Return whether an array is a gradient that each device took of its own data."""
    return isinstance(leaf, Layout) and leaf.figure is not None and leaf.figure.kind == "gradient"


def apply_gradient(call: Call, leaf: Value) -> Value:
    """An update that an optimizer makes of a gradient here."""
    return replace(leaf, figure=replace(leaf.figure, place=call.place)) if is_gradient(leaf) else leaf


_TRAIN_STATE = "flax.training.train_state.TrainState"


@dataclass(eq=False)
class TrainState(Instance):
    """A training state of flax. Its function and its optimizer are no part of the tree."""

    def library_classes(self) -> frozenset[str]:
        """The classes that its methods are found in."""
        return super().library_classes() | {_TRAIN_STATE}

    def tree_children(self) -> dict[str, Value]:
        """Return the attributes that are its children in a pytree."""
        return {name: one for name, one in self.attributes.items() if name not in ("apply_fn", "tx")}

    def with_parts(self, attributes: dict[str, Value]) -> TrainState:
        """The same state with other attributes."""
        return TrainState(self.of, attributes, self.open)

    def with_tree(self, parts: dict[str, Value]) -> TrainState:
        """The same state with other arrays."""
        return self.with_parts({**self.attributes, **parts})


@register_function(f"{_TRAIN_STATE}.create")
def create_train_state(call: Call) -> Value:
    """A state with a step of 0, the parameters, and the state of the optimizer."""
    tx = call.keywords.get("tx", Unknown())
    optimizer = Unknown()
    if isinstance(tx, Instance) and "init" in tx.attributes:
        optimizer = call.interpreter.call_value(
            tx.attributes["init"], (call.keywords.get("params", Unknown()),), {}, call.place
        )
    attributes = {"step": 0, **call.keywords, "opt_state": optimizer}
    made_of = next((one for one in call.args if isinstance(one, ClassValue)), None)
    return TrainState(made_of, attributes, region=call.interpreter.region)


@register_function(_TRAIN_STATE)
def train_state(call: Call) -> Value:
    """A state of the parts given."""
    return TrainState(None, dict(call.keywords), call.open or bool(call.args), region=call.interpreter.region)


@register_function(f"{_TRAIN_STATE}.apply_gradients")
def apply_gradients(call: Call) -> Value:
    """The state after one step: parameters and optimizer state are like before."""
    state = call.argument_at(0, "self")
    if not isinstance(state, Instance) or call.open:
        return Unknown("a state that is not known")
    tx, gradients = state.attributes.get("tx"), call.argument_at(-1, "grads")
    if isinstance(tx, Instance) and "update" in tx.attributes:
        given = (
            gradients,
            state.attributes.get("opt_state", Unknown()),
            state.attributes.get("params", Unknown()),
        )
        call.interpreter.call_value(tx.attributes["update"], given, {}, call.place)
    others = {name: value for name, value in call.keywords.items() if name != "grads"}
    kept = {name: map_tree(mark_computed, one) for name, one in state.attributes.items() if name not in others}
    return state.with_parts({**kept, **others, "step": Layout((), "int32")})
