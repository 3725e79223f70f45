"""Layers of flax NNX: the parameters that each makes when it is made, and what it gives when it is called.

What a layer computes is what the layer of linen of the same name does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import cast

from shardlint.layouts.layout import Layout, Symbol
from shardlint.layouts.values import (
    Call,
    DictValue,
    Instance,
    Library,
    Unknown,
    Value,
    as_operand,
    known_items,
)
from shardlint.libraries import flax_layers, flax_modules
from shardlint.libraries.jax_numpy import size_of
from shardlint.libraries.meeting import fresh_array, layout_as_array
from shardlint.libraries.nnx_objects import HOME, Apply, Object
from shardlint.libraries.nnx_variables import make_stream, make_variable, next_key
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass

_DEFAULTS = {
    "kernel": "flax.linen.linear.default_kernel_init",
    "embedding": "flax.linen.linear.default_embed_init",
    "scale": "flax.linen.initializers.ones",
    "bias": "flax.linen.initializers.zeros",
}
Sizes = Callable[[Object], "tuple[Value, ...] | None"]


@dataclass(frozen=True)
class Layer:
    """A layer: its positional settings, the sizes of its parameters, what it starts with, and what it does.

    A parameter whose sizes are None has a shape that is not known.
    """

    settings: str
    apply: Apply
    parameters: Mapping[str, Sizes] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)


def _adapt_to_apply(apply: flax_modules.Apply) -> Apply:
    return cast("Apply", apply)


def _size_settings(*names: str) -> Sizes:
    """The sizes that settings give, which may be tuples of them."""

    def find_sizes(layer: Object) -> tuple[Value, ...] | None:
        found: list[Value] = []
        for name in names:
            value = layer.setting_value(name, Unknown("a size"))
            items = (value,) if isinstance(value, int | Symbol) else known_items(value)
            if items is None and len(names) > 1 and name not in ("kernel_size", "axis"):
                items = (value,)
            if items is None:
                return None
            found += items
        return tuple(found)

    return find_sizes


def _convolution_sizes(layer: Object) -> tuple[Value, ...] | None:
    """The window, the features that come in for each group, those that go out."""
    sizes, inside = _size_settings("kernel_size")(layer), layer.setting_value("in_features", None)
    groups = layer.setting_value("feature_group_count", 1)
    if sizes is None or not isinstance(inside, int) or not isinstance(groups, int) or not groups:
        return None
    return (*sizes, inside // groups, layer.setting_value("out_features", Unknown("a size")))


def _contraction_sizes(layer: Object) -> tuple[Value, ...] | None:
    """The sizes of a general product without a dimension for the batch."""
    plain = isinstance(batch := layer.setting_value("batch_axis", DictValue()), DictValue) and not batch.entries
    return _size_settings("in_features", "out_features")(layer) if plain else None


def _apply_conv(call: Call, layer: Object) -> Value:
    return flax_layers.apply_conv(call, cast("flax_modules.Module", _with_features(layer)))


def _apply_dense(call: Call, layer: Object) -> Value:
    return flax_layers.apply_dense(call, cast("flax_modules.Module", _with_features(layer)))


def _with_features(layer: Object) -> Object:
    """A layer with the settings of the one of linen: `features` for what goes out."""
    return layer.with_parts({**layer.attributes, "features": layer.setting_value("out_features", Unknown("a size"))})


def _apply_linear_general(call: Call, layer: Object) -> Value:
    """A contraction of some dimensions: of the result, the shape where they are the last ones."""
    x = layout_as_array(call.argument_at(0, "inputs"))
    axes, out = _size_settings("axis")(layer), _size_settings("out_features")(layer)
    last = axes is not None and axes == tuple(range(-len(axes), 0))
    if not last or x.shape is None or axes is None or out is None or len(x.shape) < len(axes):
        return Layout()
    sizes = tuple(size_of(one) for one in out)
    return Layout((*x.shape[: len(x.shape) - len(axes)], *sizes))


def _apply_einsum(call: Call, layer: Object) -> Value:
    """An Einstein summation with the kernel, and the bias added to it."""
    run, given = call.interpreter, call.argument_at(1, "einsum_str", None)
    text = layer.setting_value("einsum_str", Unknown("a text")) if given is None else given
    kernel, bias = (as_operand(layer.setting_value(name, None)) for name in ("kernel", "bias"))
    found = run.call_value(Library("jax.numpy.einsum"), (text, call.argument_at(0, "inputs"), kernel), {}, call.place)
    return found if bias is None else run.call_value(Library("jax.numpy.add"), (found, bias), {}, call.place)


def _transposed_kernel(layer: Object) -> tuple[Value, ...] | None:
    """The window, then the features that come in and those that go out, or the other way round."""
    sizes, turned = _size_settings("kernel_size")(layer), layer.setting_value("transpose_kernel", False)
    if sizes is None or not isinstance(turned, bool):
        return None
    features = [layer.setting_value(name, Unknown("a size")) for name in ("in_features", "out_features")]
    return (*sizes, *(reversed(features) if turned else features))


def _conv_transpose(call: Call, layer: Object) -> Value:
    return flax_layers.conv_transpose(call, cast("flax_modules.Module", _with_features(layer)))


def _batch_norm(call: Call, layer: Object) -> Value:
    """Normalized by the statistics it has, or by those of the batch, which change them."""
    run = call.interpreter
    running = call.argument_at(1, "use_running_average", None)
    running = layer.setting_value("use_running_average", False) if running is None else running
    size = size_of(layer.setting_value("num_features", None))
    if running is not True:
        for name in ("mean", "var"):
            held = layer.setting_value(name, None)
            if isinstance(held, Instance):
                run.write_attribute(run.current_copy(held), "value", Layout((size,), "float32"))
    return flax_layers.normalize_array(call, cast("flax_modules.Module", layer), ("bias", "scale"))


def _apply_dropout(call: Call, layer: Object) -> Value:
    """Nothing where it is deterministic; else some entries are zero."""
    x = layout_as_array(call.argument_at(0, "inputs"))
    quiet = call.keywords.get("deterministic")
    quiet = layer.setting_value("deterministic", False) if quiet is None else quiet
    if quiet is True or layer.setting_value("rate", None) == 0:
        return x
    source = call.keywords.get("rngs", layer.setting_value("rngs", None))
    key = next_key(call, source, "dropout") if not isinstance(source, Layout) else source
    if quiet is False and x.varying is not None and key.varying is not None and key.committed is False:
        return replace(x, varying=x.varying | key.varying)
    return replace(x, varying=None, committed=x.committed or None)


_LINEAR = {"kernel": _size_settings("in_features", "out_features"), "bias": _size_settings("out_features")}
_FEATURES = _size_settings("num_features")
LAYERS = {
    "Linear": Layer("in_features out_features", _apply_dense, _LINEAR),
    "LinearGeneral": Layer(
        "in_features out_features", _apply_linear_general, {**_LINEAR, "kernel": _contraction_sizes}, {"axis": -1}
    ),
    "Embed": Layer(
        "num_embeddings features",
        _adapt_to_apply(flax_layers.apply_embed),
        {"embedding": _size_settings("num_embeddings", "features")},
    ),
    "Conv": Layer(
        "in_features out_features kernel_size strides",
        _apply_conv,
        {"kernel": _convolution_sizes, "bias": _size_settings("out_features")},
    ),
    "ConvTranspose": Layer(
        "in_features out_features kernel_size strides", _conv_transpose,
        {"kernel": _transposed_kernel, "bias": _size_settings("out_features")},
    ),
    "Einsum": Layer(
        "einsum_str kernel_shape bias_shape",
        _apply_einsum,
        {"kernel": _size_settings("kernel_shape"), "bias": _size_settings("bias_shape")},
        {"bias_shape": None},
    ),
    "LayerNorm": Layer("num_features", _adapt_to_apply(flax_layers.layer_norm), {"scale": _FEATURES,
    "bias": _FEATURES}),
    "RMSNorm": Layer("num_features", _adapt_to_apply(flax_layers.rms_norm), {"scale": _FEATURES}),
    "GroupNorm": Layer(
        "num_features num_groups", _adapt_to_apply(flax_layers.group_norm), {"scale": _FEATURES, "bias": _FEATURES}
    ),
    "BatchNorm": Layer(
        "num_features", _batch_norm, {"scale": _FEATURES, "bias": _FEATURES}, {"use_running_average": False}
    ),
    "Dropout": Layer("rate", _apply_dropout, {}, {"deterministic": False}),
}  # fmt: skip


def _make_layer(call: Call) -> Value:
    """A layer with its parameters."""
    run, kind = call.interpreter, call.function_name
    spec = LAYERS[kind]
    if call.open:
        return Unknown("a layer")
    given = {**spec.defaults, **dict(zip(spec.settings.split(), call.args, strict=False)), **call.keywords}
    source = given.pop("rngs", None)
    made = Object(None, given, region=run.region, kind=kind, apply=spec.apply)
    plain = replace(call, args=(), keywords={}, open=False)
    for name, sizes in spec.parameters.items():
        wanted = given.get(f"use_{name}", True)
        if name == "bias" and kind == "Einsum":
            wanted = given["bias_shape"] is not None
        if wanted is False:
            made.attributes[name] = None
            continue
        maker = given.get(f"{name}_init", Library(_DEFAULTS[name]))
        dtype = given.get("param_dtype", Library("jax.numpy.float32"))
        shape = sizes(made)
        key = next_key(call, source, "params")
        value = run.call_value(maker, (key, Unknown("a shape") if shape is None else shape, dtype), {}, call.place)
        metadata = given.get(f"{name}_metadata", DictValue())
        known = metadata.entries if isinstance(metadata, DictValue) else {}
        hidden = not isinstance(metadata, DictValue) or metadata.open
        variable = make_variable(replace(plain, open=hidden), "Param", value, known)
        made.attributes[name] = variable if wanted is True else Unknown("a parameter that may be there")
    if kind == "BatchNorm":
        size = size_of(given.get("num_features"))
        for name in ("mean", "var"):
            made.attributes[name] = make_variable(
                plain, "BatchStat", fresh_array(call, (size,), "float32"), {}
            )
    if kind == "Dropout":
        made.attributes["rngs"] = _fork_stream(call, source)
    return made


def _fork_stream(call: Call, source: Value) -> Value:
    """The stream of a Dropout."""
    if source is None:
        return None
    known = isinstance(source, Object) and source.kind in ("Rngs", "RngStream")
    return make_stream(call, next_key(call, source, "dropout")) if known else Unknown("a stream")


for _kind in LAYERS:
    register_function(f"{HOME}.{_kind}")(_make_layer)


@register_function(f"{HOME}.Sequential")
def make_sequential(call: Call) -> Value:
    """One layer after the other."""
    layers: Value = Unknown("layers") if call.open else tuple(call.args)
    return Object(None, {"layers": layers}, region=call.interpreter.region, kind="Sequential",
                  apply=_adapt_to_apply(flax_layers.apply_sequential))  # fmt: skip
