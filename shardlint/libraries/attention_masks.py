"""Attention of jax.nn and flax: its masks and results. Over Explicit axes specs are known of whole arrays alone."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape
from shardlint.layouts.values import Call, Library, ListValue, Native, Unknown, Value, known_items
from shardlint.libraries.jax_numpy import dtype_of
from shardlint.libraries.meeting import (
    broadcast_shapes,
    common_properties,
    computed_array,
    fresh_array,
    layout_as_array,
)
from shardlint.libraries.registry import register_function

_HOMES = ("flax.linen", "flax.nnx", "flax.linen.attention", "flax.nnx.nn.attention")


def _dtype_argument(call: Call, default: str | None) -> str | None:
    given = call.keywords.get("dtype")
    return default if given is None else dtype_of(given)


@register_function("jax.nn dot_product_attention", *(f"{home} dot_product_attention" for home in _HOMES))
def attention_values(call: Call) -> Value:
    """Weighted means of values: of the shape of the queries, with the last dimension of the values."""
    query, key, value = (
        layout_as_array(call.argument_at(place, name)) for place, name in enumerate(("query", "key", "value"))
    )
    shape = (*query.shape[:-1], value.shape[-1]) if query.shape and value.shape else None
    if call.keywords.get("return_residual", False) is not False:
        return computed_array(call, [query, key, value], None), Layout()
    return computed_array(
        call, [query, key, value], shape, _dtype_argument(call, common_properties([query, key, value]).dtype)
    )


@register_function(*(f"{home} dot_product_attention_weights" for home in _HOMES))
def attention_weights(call: Call) -> Value:
    """How much each query takes of each key: `(..., heads, queries, keys)`."""
    query, key = layout_as_array(call.argument_at(0, "query")), layout_as_array(call.argument_at(1, "key"))
    shape: Shape | None = None
    if query.shape is not None and key.shape is not None and min(len(query.shape), len(key.shape)) > 2:
        shape = (*query.shape[:-3], query.shape[-2], query.shape[-3], key.shape[-3])
    return computed_array(
        call, [query, key], shape, _dtype_argument(call, common_properties([query, key]).dtype)
    )


@register_function(*(f"{home} make_attention_mask" for home in _HOMES))
def attention_mask(call: Call) -> Value:
    """Which query may see which key: `(..., 1, queries, keys)`."""
    query, key = layout_as_array(call.argument_at(0, "query_input")), layout_as_array(call.argument_at(1, "key_input"))
    shape: Shape | None = None
    if query.shape and key.shape and not call.has_argument(3, "extra_batch_dims"):
        batch = broadcast_shapes([query.shape[:-1], key.shape[:-1]])
        shape = (*batch, 1, query.shape[-1], key.shape[-1]) if batch is not None else None
    return computed_array(call, [query, key], shape, _dtype_argument(call, "float32"))


@register_function(*(f"{home} make_causal_mask" for home in _HOMES))
def causal_mask(call: Call) -> Value:
    """Which entry may see which: those before it."""
    array = layout_as_array(call.argument_at(0, "x"))
    plain = bool(array.shape) and not call.has_argument(1, "extra_batch_dims")
    shape = (*array.shape[:-1], 1, array.shape[-1], array.shape[-1]) if plain and array.shape else None
    return fresh_array(call, shape, _dtype_argument(call, "float32"))


@register_function(*(f"{home} combine_masks" for home in _HOMES))
def combine_masks(call: Call) -> Value:
    """Masks that hold together; None of none."""
    given = [one for one in call.args if one is not None]
    if not given and not call.open:
        return None
    arrays = [layout_as_array(one) for one in given] or [Layout()]
    shape = broadcast_shapes([one.shape for one in arrays]) if not call.open else None
    return computed_array(call, arrays, shape, _dtype_argument(call, "float32"))


_SPLASH = "jax.experimental.pallas.ops.tpu.splash_attention"
_KERNELS = "make_splash_mha make_splash_mqa make_splash_mha_single_device make_splash_mqa_single_device"


@register_function(f"{_SPLASH} {_KERNELS}", f"{_SPLASH}.splash_attention_kernel {_KERNELS}")
def splash_kernel(call: Call) -> Value:
    """A function of queries, keys and values."""
    plain = call.keywords.get("save_residuals", False) is False
    return Native(call.name, lambda again: _shape_like_queries(again) if plain else Unknown("residuals"))


@register_function("jax.experimental.pallas.ops.tpu.flash_attention flash_attention")
def _shape_like_queries(call: Call) -> Value:
    """Weighted means of values, one for each query."""
    query, key, value = (layout_as_array(call.argument_at(place, name)) for place, name in enumerate(("q", "k", "v")))
    shape = (*query.shape[:-1], value.shape[-1]) if query.shape and value.shape else None
    return computed_array(call, [query, key, value], shape, query.dtype)


@register_function("flax.linen.dtypes promote_dtype", "flax.nnx.nn.dtypes promote_dtype")
def promote_arrays(call: Call) -> Value:
    """Arrays of one type, which is given or the common one."""
    in_tuple = call.name.startswith("flax.nnx")
    items = known_items(call.argument_at(0, "args")) if in_tuple else call.args
    if items is None or call.open:
        return ListValue([Layout()], True)
    given = call.keywords.get("dtype")
    dtype = (
        common_properties([layout_as_array(one) for one in items if one is not None]).dtype
        if given is None
        else dtype_of(given)
    )
    dtype = dtype if given is not None or "float" in (dtype or "") else None
    convert = Library("jax.numpy.asarray")
    made = [
        one if one is None else layout_as_array(call.interpreter.call_value(convert, (one,), {}, call.place))
        for one in items
    ]
    typed = [replace(one, dtype=dtype) if isinstance(one, Layout) else None for one in made]
    return tuple(typed) if in_tuple else ListValue(list(typed), region=call.interpreter.region)


@register_function("jax.nn glu", "flax.linen glu", "flax.nnx glu")
def gate_dimension(call: Call) -> Value:
    """One half of a dimension, as far as the other half lets it through."""
    array, axis = layout_as_array(call.argument_at(0, "x")), call.argument_at(1, "axis", -1)
    shape: Shape | None = None
    if array.shape and isinstance(axis, int) and -len(array.shape) <= axis < len(array.shape):
        place = axis % len(array.shape)
        size = array.shape[place]
        half = size // 2 if isinstance(size, int) else None
        shape = (*array.shape[:place], half, *array.shape[place + 1 :])
    return computed_array(call, [array], shape, array.dtype if "float" in (array.dtype or "") else None)
