"""equinox: convolutions, pooling, attention, cells and what else takes one example without a dimension for a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape, Size, divide_size
from shardlint.layouts.values import AnyTree, Call, Instance, Native, Unknown, Value, known_items, map_tree
from shardlint.libraries.equinox_nn import make_linear, make_weights
from shardlint.libraries.jax_numpy import size_of
from shardlint.libraries.jax_windows import numbers_of, paddings_of, pooled_shape, sweep_all
from shardlint.libraries.meeting import computed_array, layout_as_array
from shardlint.libraries.registry import register_function

Apply = Callable[[Call], Value]


def _make_layer(call: Call, weights: dict[str, Value], apply: Apply, is_open: bool = False) -> Instance:
    """A layer with its weights, and what a call of it gives."""
    made = Instance(None, weights, is_open)
    made.call = Native(call.name, apply)
    return made


def _bool_or_none(value: Value) -> bool | None:
    return value if isinstance(value, bool) else None


def _spatial_dimensions(call: Call) -> tuple[int | None, int]:
    """The number of spatial dimensions, and the place of the first argument after it."""
    digit = call.function_name[-2]
    if digit.isdigit():
        return int(digit), 0
    given = call.argument_at(0, "num_spatial_dims")
    return (given if isinstance(given, int) else None), 1


def _channel_sizes(call: Call, first: int) -> tuple[Size, Size]:
    return size_of(call.argument_at(first, "in_channels")), size_of(call.argument_at(first + 1, "out_channels"))


@register_function("equinox.nn Conv Conv1d Conv2d Conv3d")
def make_conv(call: Call) -> Value:
    """`weight` (out, in, *window) and `bias` (out, 1, ...)."""
    count, first = _spatial_dimensions(call)
    if count is None:
        return Instance(None, {}, True)
    inside, outside = _channel_sizes(call, first)
    window, groups = (
        numbers_of(call.argument_at(first + 2, "kernel_size"), count),
        call.argument_at(first + 6, "groups", 1),
    )
    bias = _bool_or_none(call.argument_at(first + 7, "use_bias", True))
    steps, padding, spread = (
        call.argument_at(first + place, name, default)
        for place, name, default in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
    )
    shape = (outside, divide_size(inside, size_of(groups)), *window)
    weights = make_weights(call, weight=shape, bias=(outside, *(1,) * count) if bias else None)

    def apply_layer(again: Call) -> Value:
        x = layout_as_array(again.argument_at(0, "x"))
        known = x.shape is not None and len(x.shape) == count + 1
        sizes = sweep_all(x.shape[1:], window, steps, padding, spread) if known and x.shape else None
        return computed_array(again, [x], (outside, *sizes) if sizes is not None else None)

    return _make_layer(call, weights, apply_layer, bias is None)


@register_function("equinox.nn ConvTranspose ConvTranspose1d ConvTranspose2d ConvTranspose3d")
def conv_transpose(call: Call) -> Value:
    """The same of a transposed convolution, whose result is larger."""
    count, first = _spatial_dimensions(call)
    if count is None:
        return Instance(None, {}, True)
    inside, outside = _channel_sizes(call, first)
    window, groups = (
        numbers_of(call.argument_at(first + 2, "kernel_size"), count),
        call.argument_at(first + 7, "groups", 1),
    )
    bias = _bool_or_none(call.argument_at(first + 8, "use_bias", True))
    places = {"padding": 4, "output_padding": 5} if first else {"padding": 5, "output_padding": 4}
    steps = numbers_of(call.argument_at(first + 3, "stride", 1), count)
    spread = numbers_of(call.argument_at(first + 6, "dilation", 1), count)
    more = numbers_of(call.argument_at(first + places["output_padding"], "output_padding", 0), count)
    padding = paddings_of(call.argument_at(first + places["padding"], "padding", 0), count)
    shape = (outside, divide_size(inside, size_of(groups)), *window)
    weights = make_weights(call, weight=shape, bias=(outside, *(1,) * count) if bias else None)

    def grown_size(size: Size, place: int) -> Size:
        numbers = (size, window[place], steps[place], spread[place], more[place])
        edges = padding[place]
        if not isinstance(edges, tuple) or not all(isinstance(one, int) for one in numbers):
            return None
        length, wide, step, far, extra = (one for one in numbers if isinstance(one, int))
        return (length - 1) * step - sum(edges) + far * (wide - 1) + extra + 1

    def apply_layer(again: Call) -> Value:
        x = layout_as_array(again.argument_at(0, "x"))
        known = x.shape is not None and len(x.shape) == count + 1
        sizes = (
            [grown_size(size, place) for place, size in enumerate(x.shape[1:])] if known and x.shape else None
        )
        return computed_array(again, [x], (outside, *sizes) if sizes is not None else None)

    return _make_layer(call, weights, apply_layer, bias is None)


_POOLS = " ".join(f"{kind}Pool{number}d" for kind in ("Max", "Avg") for number in (1, 2, 3))


@register_function(f"equinox.nn {_POOLS}")
def make_pool(call: Call) -> Value:
    """A layer without weights; the first dimension holds the channels."""
    count = int(call.function_name[-2])
    window, steps, padding = (
        call.argument_at(0, "kernel_size"),
        call.argument_at(1, "stride", 1),
        call.argument_at(2, "padding", 0),
    )
    plain = call.argument_at(3, "use_ceil", False) is False

    def apply_layer(again: Call) -> Value:
        x = layout_as_array(again.argument_at(0, "x"))
        known = plain and x.rank == count + 1
        return computed_array(
            again, [x], pooled_shape(x, window, steps, padding, 1, 0) if known else None, x.dtype
        )

    return _make_layer(call, {}, apply_layer)


_ADAPTIVE = " ".join(f"Adaptive{kind}Pool{number}d" for kind in ("Max", "Avg") for number in (1, 2, 3))


@register_function(f"equinox.nn {_ADAPTIVE}")
def adaptive_pool(call: Call) -> Value:
    """Pooling to a size."""
    count, given = int(call.function_name[-2]), call.argument_at(0, "target_shape")

    def apply_layer(again: Call) -> Value:
        x = layout_as_array(again.argument_at(0, "x"))
        return computed_array(again, [x], (x.shape[0], *numbers_of(given, count)) if x.shape else None)

    return _make_layer(call, {}, apply_layer)


@register_function("equinox.nn Dropout Identity")
def make_same_shape(call: Call) -> Value:
    """A layer that keeps the shape."""

    def apply_layer(again: Call) -> Value:
        x = layout_as_array(again.argument_at(0, "x"))
        return x if call.function_name == "Identity" else computed_array(again, [x], x.shape, x.dtype)

    return _make_layer(call, {}, apply_layer, call.function_name == "Dropout")


@register_function("equinox.nn GroupNorm BatchNorm")
def make_norm(call: Call) -> Value:
    """`weight` and `bias` of the channels; a BatchNorm gives a state too."""
    with_state = call.function_name == "BatchNorm"
    size = size_of(call.argument_at(0 if with_state else 1, "input_size" if with_state else "channels", None))
    affine = _bool_or_none(call.argument_at(3, "channelwise_affine", True))
    weights = make_weights(call, weight=(size,), bias=(size,)) if affine else {"weight": None, "bias": None}

    def apply_layer(again: Call) -> Value:
        x = layout_as_array(again.argument_at(0, "x"))
        found = computed_array(again, [x], x.shape)
        return (found, again.argument_at(1, "state")) if with_state or again.has_argument(1, "state") else found

    return _make_layer(call, weights, apply_layer, with_state or affine is None)


@register_function("equinox.nn PReLU")
def make_prelu(call: Call) -> Value:
    """`negative_slope`, a number or one for each entry."""
    given = layout_as_array(call.argument_at(0, "init_alpha", 0.25))
    weights = make_weights(call, negative_slope=given.shape)

    def apply_layer(again: Call) -> Value:
        x = layout_as_array(again.argument_at(0, "x"))
        return computed_array(again, [x], x.shape)

    return _make_layer(call, weights, apply_layer)


@register_function("equinox.nn MultiheadAttention")
def make_attention(call: Call) -> Value:
    """Projections of queries, keys and values, and of what comes of them, each a Linear."""
    names = "num_heads query_size key_size value_size output_size qk_size vo_size".split()
    heads, query, *others = (size_of(call.argument_at(place, name, None)) for place, name in enumerate(names))
    key, value, out, each, each_value = others
    each = divide_size(query, heads) if each is None else each
    each_value = divide_size(query, heads) if each_value is None else each_value
    out = query if out is None else out
    known = all(isinstance(one, int) for one in (heads, query, each, each_value, out)) and not call.open
    if not known or not isinstance(heads, int) or not isinstance(each, int) or not isinstance(each_value, int):
        return Instance(None, {}, True)
    rows = {
        "query_proj": (query, heads * each, "use_query_bias"), "key_proj": (key or query, heads * each, "use_key_bias"),
        "value_proj": (value or query, heads * each_value, "use_value_bias"),
        "output_proj": (heads * each_value, out, "use_output_bias"),
    }  # fmt: skip
    plain = replace(call, name="equinox.nn.Linear", keywords={})
    parts = {
        name: make_linear(replace(plain, args=(into, to, call.keywords.get(bias, False))))
        for name, (into, to, bias) in rows.items()
    }

    def apply_layer(again: Call) -> Value:
        queries = layout_as_array(again.argument_at(0, "query"))
        return computed_array(again, [queries], (queries.shape[0], out) if queries.shape else None)

    return _make_layer(call, parts, apply_layer, True)


@register_function("equinox.nn GRUCell LSTMCell")
def make_cell(call: Call) -> Value:
    """Weights of the input and of what is carried, for three gates or four."""
    inside, hidden = size_of(call.argument_at(0, "input_size")), size_of(call.argument_at(1, "hidden_size"))
    gates, bias = 3 if call.function_name == "GRUCell" else 4, _bool_or_none(call.argument_at(2, "use_bias", True))
    rows = gates * hidden if isinstance(hidden, int) else None
    shapes: dict[str, Shape | None] = {
        "weight_ih": (rows, inside), "weight_hh": (rows, hidden), "bias": (rows,) if bias else None,
    }  # fmt: skip
    if gates == 3:
        shapes["bias_n"] = (hidden,) if bias else None

    def apply_layer(again: Call) -> Value:
        each = computed_array(again, [layout_as_array(again.argument_at(0, "input"))], (hidden,))
        return each if gates == 3 else (each, each)

    return _make_layer(call, make_weights(call, **shapes), apply_layer, bias is None)


@register_function("equinox.nn Sequential")
def make_sequential(call: Call) -> Value:
    """One layer after the other."""
    layers = known_items(call.argument_at(0, "layers"))
    if layers is None:
        return Instance(None, {}, True)

    def apply_layer(again: Call) -> Value:
        found = again.argument_at(0, "x")
        if again.has_argument(1, "state"):
            return (Unknown("what layers with a state give"), again.argument_at(1, "state"))
        for one in layers:
            found = again.interpreter.call_value(one, (found,), {}, again.place)
        return found

    return _make_layer(call, {"layers": tuple(layers)}, apply_layer)


@register_function("equinox.nn Lambda")
def wrap_function(call: Call) -> Value:
    """A function as a layer."""
    given = call.argument_at(0, "fn")
    return _make_layer(call, {}, lambda again: again.interpreter.call_value(given, again.args[:1], {}, again.place))


@register_function("equinox.nn make_with_state")
def with_state(call: Call) -> Value:
    """A maker of a model and its state."""
    given = call.argument_at(0, "make_model")

    def make_with_state(again: Call) -> Value:
        model = again.interpreter.call_value(given, again.args, again.keywords, again.place, again.open)
        return (model, AnyTree(Unknown()))

    return Native(call.name, make_with_state)


@register_function("equinox.nn inference_mode", "equinox error_if")
def return_first_argument(call: Call) -> Value:
    """Its first argument."""
    return call.argument_at(0, "x" if call.function_name == "error_if" else "pytree")


@register_function("equinox tree_serialise_leaves")
def write_nothing(call: Call) -> Value:
    """Nothing."""
    return None


@register_function("equinox tree_deserialise_leaves")
def restore_tree(call: Call) -> Value:
    """A tree like another one, with arrays from a file."""
    like = call.argument_at(1, "like")
    if isinstance(like, Unknown):
        return AnyTree(Unknown())
    return map_tree(lambda leaf: Layout(leaf.shape, leaf.dtype) if isinstance(leaf, Layout) else leaf, like)


@register_function("equinox is_array is_array_like is_inexact_array")
def is_array(call: Call) -> Value:
    """Return whether a leaf is an array."""
    leaf = call.argument_at(0, "element")
    if isinstance(leaf, Layout) and not leaf.literal and call.function_name == "is_array":
        return not leaf.host if leaf.host is not None else Unknown("a test")
    return False if isinstance(leaf, str | None) else Unknown("a test")


