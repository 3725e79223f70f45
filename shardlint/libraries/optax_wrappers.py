"""optax: optimizers made of others: for some parameters alone, with other rates at each step, or written as functions.

Facts of optax, each tried: a parameter that a mask leaves out has no state, and no leaf in it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial as bind

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import (
    AnyTree,
    Call,
    DictValue,
    FunctionValue,
    Instance,
    Library,
    Native,
    Partial,
    Unknown,
    Value,
    map_spread,
    map_tree,
)
from shardlint.libraries.meeting import fresh_array
from shardlint.libraries.optimizers import (
    STATES,
    begin_states,
    find_inits,
    make_counter,
    make_transformation,
    state_of_rate,
    zeros_like_tree,
)
from shardlint.libraries.registry import register_function

_FUNCTIONS = (FunctionValue, Native, Partial)


@register_function(
    "optax GradientTransformation GradientTransformationExtraArgs", "optax._src.base GradientTransformation"
)
def make_custom_transformation(call: Call) -> Value:
    """A transformation that a program writes as two functions."""
    functions = {"init": call.argument_at(0, "init"), "update": call.argument_at(1, "update")}
    return Instance(None, functions, region=call.interpreter.region)


_NAMED_STATES = {
    "ScaleByAdamState ScaleByBeliefState": "count mu nu",
    "ScaleByLionState": "count mu",
    "ScaleByScheduleState ScaleByTrustRatioState": "count",
    "TraceState": "trace",
    "EmaState": "count ema",
    "ScaleByRssState": "sum_of_squares",
    "ScaleByRmsState": "nu",
    "FactoredState": "count v_row v_col v",
    "MaskedState": "inner_state",
    "PartitionState MultiTransformState": "inner_states",
    "MultiStepsState": "mini_step gradient_step inner_opt_state acc_grads skip_state",
    "ApplyIfFiniteState": "notfinite_count last_finite total_notfinite inner_state",
    "EmptyState MaskedNode ScaleState AddDecayedWeightsState": "",
}


@register_function(*(f"optax {names}" for names in _NAMED_STATES))
def make_program_state(call: Call) -> Value:
    """A state as a program writes it."""
    fields = next(known for names, known in _NAMED_STATES.items() if call.function_name in names.split()).split()
    given = dict(zip(fields, call.args, strict=False))
    return Instance(None, {**given, **call.keywords}, open=call.open or len(call.args) > len(fields))


def _masked_state(call: Call, inits: list[Value], mask: Value, params: Value) -> Value:
    """The state of a transformation of the parameters for which a mask is true."""
    known = True

    def choose_leaf(_: str, leaf: Value, wanted: Value) -> Value:
        nonlocal known
        known = known and isinstance(wanted, bool)
        return leaf if wanted is True else Instance(None, {})

    chosen = map_spread(choose_leaf, mask, params)
    if not known:
        return AnyTree(Unknown())
    return Instance(None, {"inner_state": begin_states(call, inits, chosen)[0]})


def _apply_mask(call: Call, value: Value, params: Value) -> Value:
    """A mask or labels, which may be a function of the parameters."""
    return call.interpreter.call_value(value, (params,), {}, call.place) if isinstance(value, _FUNCTIONS) else value


@register_function("optax masked")
def mask_transformation(call: Call) -> Value:
    """A transformation of some of the parameters."""
    inits, mask = find_inits((call.argument_at(0, "inner"),)), call.argument_at(1, "mask")

    def init_masked(again: Call, params: Value) -> Value:
        wanted = _apply_mask(again, mask, params)
        if inits is None or isinstance(wanted, Unknown | AnyTree):
            return AnyTree(Unknown())
        return _masked_state(again, inits, wanted, params)

    return make_transformation(init_masked)


def _is_label(label: Value, leaf: Value) -> Value:
    return leaf == label if isinstance(leaf, str | int) else Unknown("a label")


@register_function("optax multi_transform partition")
def partition_transformation(call: Call) -> Value:
    """A transformation for each label of parameters."""
    transforms, labels = call.argument_at(0, "transforms"), call.argument_at(1, "param_labels")

    def init_partitioned(again: Call, params: Value) -> Value:
        found = _apply_mask(again, labels, params)
        if not isinstance(transforms, DictValue) or transforms.open or isinstance(found, Unknown | AnyTree):
            return AnyTree(Unknown())
        states: dict[object, Value] = {}
        for label, one in transforms.entries.items():
            inits = find_inits((one,))
            mask = map_tree(bind(_is_label, label), found)
            states[label] = _masked_state(again, inits, mask, params) if inits is not None else AnyTree(Unknown())
        return Instance(None, {"inner_states": DictValue(states)})

    return make_transformation(init_partitioned)


@register_function("optax inject_hyperparams inject_stateful_hyperparams", "optax.schedules inject_hyperparams")
def inject_hyperparameters(call: Call) -> Value:
    """A maker of transformations whose numbers are part of the state: a schedule gives its number of the step."""
    factory = call.argument_at(0, "inner_factory")

    def number_or_value(value: Value) -> Value:
        return Layout((), "float32") if isinstance(value, _FUNCTIONS) or _is_schedule(value) else value

    def make_injected(again: Call) -> Value:
        args = tuple(number_or_value(one) for one in again.args)
        keywords = {name: number_or_value(one) for name, one in again.keywords.items()}
        inner = again.interpreter.call_value(factory, args, keywords, again.place, again.open)
        inits = find_inits((inner,))

        def init_injected(last: Call, params: Value) -> Value:
            inside = begin_states(last, inits, params)[0] if inits is not None else AnyTree(Unknown())
            attributes = {
                "count": make_counter(last),
                "hyperparams": AnyTree(Layout(())),
                "hyperparams_states": AnyTree(Unknown()),
                "inner_state": inside,
            }
            return Instance(None, attributes)

        return make_transformation(init_injected)

    return Native(call.name, make_injected)


def _is_schedule(value: Value) -> bool:
    return isinstance(value, Library) and "schedule" in value.name


# adafactor


def _factored_state(call: Call, least: Value, factored: Value, params: Value) -> Value:
    """The state of the root mean squares: of a large matrix those of its rows and columns alone."""

    def part_of_leaf(leaf: Value, name: str) -> Value:
        if not isinstance(leaf, Layout) or leaf.shape is None or not all(isinstance(one, int) for one in leaf.shape):
            return Layout()
        if not isinstance(least, int) or not isinstance(factored, bool):
            return Layout()
        sizes = [one for one in leaf.shape if isinstance(one, int)]
        order = sorted(range(len(sizes)), key=lambda place: sizes[place])
        if not factored or len(sizes) < 2 or sizes[order[-2]] < least:
            return _one_entry(call, leaf) if name != "v" else zeros_like_tree(call, leaf)
        if name == "v":
            return _one_entry(call, leaf)
        gone = order[-1] if name == "v_row" else order[-2]
        return Layout((*leaf.shape[:gone], *leaf.shape[gone + 1 :]), leaf.dtype, host=False)

    parts = {
        name: map_tree(lambda leaf, name=name: part_of_leaf(leaf, name), params)
        for name in ("v_row", "v_col", "v")
    }
    return Instance(None, {"count": make_counter(call), **parts})


def _one_entry(call: Call, leaf: Layout) -> Layout:
    return replace(fresh_array(call, (1,), leaf.dtype), committed=make_counter(call).committed)


@register_function("optax scale_by_factored_rms")
def scale_by_factored_rms(call: Call) -> Value:
    """Updates by their root mean squares."""
    factored, least = call.argument_at(0, "factored", True), call.argument_at(3, "min_dim_size_to_factor", 128)
    return make_transformation(lambda again, params: _factored_state(again, least, factored, params))


@register_function("optax adafactor")
def make_adafactor(call: Call) -> Value:
    """A chain of what its options say."""
    least, factored = call.argument_at(1, "min_dim_size_to_factor", 128), call.keywords.get("factored", True)
    rate, scales = call.argument_at(0, "learning_rate", None), call.argument_at(4, "multiply_by_parameter_scale", True)
    clips, momentum = call.argument_at(5, "clipping_threshold", 1.0), call.argument_at(6, "momentum", None)
    decay = call.argument_at(8, "weight_decay_rate", None)
    if call.open or not isinstance(scales, bool) or any(isinstance(one, Unknown) for one in (clips, momentum, decay)):
        return make_transformation(lambda again, params: AnyTree(Unknown()))

    def init_adafactor(again: Call, params: Value) -> Value:
        parts = [_factored_state(again, least, factored, params)]
        parts += [STATES["clip"](again, params)] if clips is not None else []
        parts += [state_of_rate(rate)(again, params)] if rate is not None else []
        parts += [STATES["scale"](again, params)] if scales else []
        parts += [STATES["ema"](again, params)] if momentum is not None else []
        parts += [STATES["scale"](again, params)] if decay is not None else []
        return (*parts, STATES["scale"](again, params))

    return make_transformation(init_adafactor)
