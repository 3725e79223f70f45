"""Layers of flax linen: the variables that each has, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape, Size, divide_size
from shardlint.layouts.values import AnyTree, Call, Library, Native, Unknown, Value, known_items
from shardlint.libraries.draws import check_drawn_for
from shardlint.libraries.flax_linen import run_entered
from shardlint.libraries.flax_modules import LAYER_NAMES, Apply, Module, bind_module
from shardlint.libraries.flax_variables import make_param, make_rng, make_variable
from shardlint.libraries.jax_numpy import apply_unary, dtype_of, size_of, sizes_of
from shardlint.libraries.jax_slices import one_hot
from shardlint.libraries.jax_windows import numbers_of, paddings_of, sweep_all, transposed_size
from shardlint.libraries.meeting import fresh_array, layout_as_array, meet_operands
from shardlint.libraries.registry import register_function

# layers


def register_layer(name: str, fields: str) -> Callable[[Apply], Apply]:
    """Enter a layer of linen with its fields, in their order."""

    def enter_layer(apply: Apply) -> Apply:
        def make_layer(call: Call) -> Value:
            given = dict(zip(fields.split(), call.args, strict=False))
            return bind_module(call, Module(None, {**given, **call.keywords}, call.open, region=call.interpreter.region,
                                      apply=apply, class_name=name))  # fmt: skip

        LAYER_NAMES.add(f"flax.linen.{name}")
        register_function(f"flax.linen.{name}")(make_layer)
        return apply

    return enter_layer


def _layer_parameter(
    call: Call, module: Module, name: str, shape: Shape, default: str, init: str = ""
) -> Value:
    """A parameter of a layer, made by the initializer that its fields give; the one that a layer of NNX has."""
    if not isinstance(module, Module):
        return layout_as_array(call.interpreter.current_copy(module.setting_value(name, Unknown("a parameter"))))
    maker = module.setting_value(init or f"{name}_init", Library(default))
    dtype = module.setting_value("param_dtype", Library("jax.numpy.float32"))
    sizes = tuple(Unknown("a size") if one is None else one for one in shape)
    return layout_as_array(
        make_param(replace(call, args=(module, name, maker, sizes, dtype), keywords={}, open=False))
    )


def _last_size(array: Layout) -> Size:
    return array.shape[-1] if array.shape else None


def _parameter_if_enabled(call: Call, module: Module, name: str, make: Callable[[], Value]) -> Value:
    """A parameter that a field turns off; what it is, or None; unknown where that is not known."""
    wanted = module.setting_value(name, True)
    if wanted is False:
        return None
    if wanted is True:
        return make()
    with call.interpreter.run_uncertainly():
        make()
    return Unknown("a parameter that may be there")


def _with_layer_dtype(module: Module, array: Value, *parameters: Value) -> Value:
    """The result of a layer: of the type that its `dtype` says."""
    dtype = module.setting_value("dtype", None)
    if isinstance(array, Layout) and dtype is not None:
        return replace(array, dtype=dtype_of(dtype))
    return array


_DENSE = "features use_bias dtype param_dtype precision kernel_init bias_init promote_dtype dot_general dot_general_cls"
_ZEROS, _KERNEL = "flax.linen.initializers.zeros", "flax.linen.linear.default_kernel_init"


@register_layer("Dense", _DENSE)
def apply_dense(call: Call, module: Module) -> Value:
    """A product with `kernel` (in, out), and `bias`."""
    run, x, features = (
        call.interpreter,
        layout_as_array(call.argument_at(0, "inputs")),
        size_of(module.setting_value("features", None)),
    )
    kernel = _layer_parameter(call, module, "kernel", (_last_size(x), features), _KERNEL)
    bias = _parameter_if_enabled(
        call, module, "use_bias", lambda: _layer_parameter(call, module, "bias", (features,), _ZEROS)
    )
    if (
        module.setting_value("dot_general", None) is not None
        or module.setting_value("dot_general_cls", None) is not None
    ):
        return Layout((*x.shape[:-1], features) if x.shape else None)
    found = run.call_value(Library("jax.numpy.matmul"), (x, kernel), {}, call.place)
    if isinstance(bias, Layout):
        found = run.call_value(Library("jax.numpy.add"), (found, bias), {}, call.place)
    return _with_layer_dtype(
        module, found if not isinstance(bias, Unknown) else Layout(layout_as_array(found).shape)
    )


@register_layer("DenseGeneral", "features axis batch_axis use_bias")
def dense_general(call: Call, module: Module) -> Value:
    """A contraction of the last dimensions with `kernel`, whose other dimensions are the features."""
    x, features = layout_as_array(call.argument_at(0, "inputs")), module.setting_value("features", None)
    axis, batch = module.setting_value("axis", -1), module.setting_value("batch_axis", None)
    out = known_items(features) if not isinstance(features, int) else (features,)
    over = known_items(axis) if not isinstance(axis, int) else (axis,)
    rank = x.rank
    inside: Shape | None = None
    if rank is not None and over is not None and batch is None and all(isinstance(one, int) for one in over):
        places = [one % rank for one in over if -rank <= one < rank]
        if places == list(range(rank - len(over), rank)) and x.shape is not None:
            inside = tuple(x.shape[one] for one in places)
    if inside is None or out is None:
        _opaque_parts(call, module)
        return Layout()
    sizes = tuple(size_of(one) for one in out)
    _layer_parameter(call, module, "kernel", (*inside, *sizes), _KERNEL)
    _parameter_if_enabled(
        call, module, "use_bias", lambda: _layer_parameter(call, module, "bias", sizes, _ZEROS)
    )
    return _with_layer_dtype(module, Layout((*(x.shape or ())[: (rank or 0) - len(inside)], *sizes)))


def _opaque_parts(call: Call, module: Module, collection: str = "params") -> None:
    """Say that a layer has variables of which nothing is known."""
    if isinstance(module, Module) and module.scope is not None:
        module.scope.created_variables(collection).open = True


@register_layer("Embed", "num_embeddings features dtype param_dtype embedding_init")
def apply_embed(call: Call, module: Module) -> Value:
    """Rows of `embedding` (count, features)."""
    x, (table, _, features) = layout_as_array(call.argument_at(0, "inputs")), _embedding_table(call, module)
    base = meet_operands(call, [table, x])
    found = replace(base, mesh=None, spec=None) if base.is_explicit else base
    shape = (*x.shape, features) if x.shape is not None else None
    return _with_layer_dtype(module, replace(found, dtype=table.dtype).with_shape(shape))


def _embedding_table(call: Call, module: Module) -> tuple[Layout, Size, Size]:
    """The table of an Embed, and its sizes."""
    sizes = size_of(module.setting_value("num_embeddings", None)), size_of(module.setting_value("features", None))
    made = _layer_parameter(call, module, "embedding", sizes, "flax.linen.linear.default_embed_init")
    return layout_as_array(made), *sizes


@register_function("flax.linen.Embed.attend")
def attend_embedding(call: Call) -> Value:
    """The product with the transposed `embedding`."""
    module = call.args[0]
    if not isinstance(module, Module) or module.scope is None:
        return Unknown("a layer outside of `apply`")

    def multiply_embedding(again: Call) -> Value:
        x, (table, count, _) = layout_as_array(again.argument_at(0, "query")), _embedding_table(again, module)
        base = replace(meet_operands(again, [table, x]), mesh=None, spec=None)
        return _with_layer_dtype(module, base.with_shape((*x.shape[:-1], count) if x.shape else None))

    return run_entered(replace(call, args=call.args[1:]), module, multiply_embedding)


_NORM = (
    "epsilon dtype param_dtype use_bias use_scale bias_init scale_init reduction_axes feature_axes axis_name"
)


@register_layer("LayerNorm", _NORM)
def layer_norm(call: Call, module: Module) -> Value:
    """`scale` and `bias` of the last dimension; the result is like the argument."""
    return normalize_array(call, module, ("bias", "scale"))


@register_layer("RMSNorm", "epsilon dtype param_dtype use_scale scale_init reduction_axes feature_axes axis_name")
def rms_norm(call: Call, module: Module) -> Value:
    """`scale` of the last dimension."""
    return normalize_array(call, module, ("scale",))


@register_layer("GroupNorm", "num_groups group_size epsilon dtype param_dtype use_bias use_scale bias_init scale_init")
def group_norm(call: Call, module: Module) -> Value:
    """`scale` and `bias` of the last dimension."""
    return normalize_array(call, module, ("bias", "scale"))


def normalize_array(call: Call, module: Module, names: tuple[str, ...]) -> Value:
    """An array normalized over its last dimension, with the parameters that are named."""
    x = layout_as_array(call.argument_at(0, "x"))
    if module.setting_value("feature_axes", module.setting_value("axis", -1)) != -1:
        _opaque_parts(call, module)
        return Layout(x.shape)
    found: Value = x
    for name in names:
        default = "flax.linen.initializers.ones" if name == "scale" else _ZEROS
        held = _parameter_if_enabled(
            call, module, f"use_{name}", lambda name=name, default=default: _layer_parameter(  # type: ignore[misc]
                call, module, name, (_last_size(x),), default)
        )  # fmt: skip
        if isinstance(held, Layout):
            found = call.interpreter.call_value(Library("jax.numpy.multiply"), (found, held), {}, call.place)
        elif isinstance(held, Unknown):
            found = Layout(x.shape)
    return _with_layer_dtype(module, found)


@register_layer(
    "BatchNorm",
    "use_running_average axis momentum epsilon dtype param_dtype use_bias use_scale bias_init scale_init axis_name",
)
def batch_norm(call: Call, module: Module) -> Value:
    """`mean` and `var` in `batch_stats`, changed to those of the batch of each device or of an axis."""
    x, size = layout_as_array(call.argument_at(0, "x")), (_last_size(layout_as_array(call.argument_at(0, "x"))),)
    running = call.argument_at(1, "use_running_average", None)
    running = module.setting_value("use_running_average", None) if running is None else running
    if module.setting_value("axis", -1) != -1:
        _opaque_parts(call, module)
        return Layout(x.shape)
    initializing = module.scope is not None and module.scope.app.initializing
    for name in ("mean", "var"):
        make = Native(name, lambda again: fresh_array(again, size, "float32"))
        held = make_variable(replace(call, args=(module, "batch_stats", name, make), keywords={}, open=False))
        if initializing or running is True:
            continue
        before, axis = layout_as_array(held.attributes["value"]), module.setting_value("axis_name", None)
        if running is not False or not (axis is None or isinstance(axis, str)):
            held.attributes["value"] = Layout(size, "float32", host=False)
            continue
        own = None if x.varying is None else x.varying - {axis}
        varying = None if own is None or before.varying is None else own | before.varying
        differs = (x.differs - {axis}) | before.differs
        held.attributes["value"] = Layout(size, "float32", varying=varying, differs=differs, host=False)
    return normalize_array(call, module, ("bias", "scale"))


@register_layer(
    "Conv",
    "features kernel_size strides padding input_dilation kernel_dilation feature_group_count use_bias mask dtype "
    "param_dtype precision kernel_init bias_init",
)
def apply_conv(call: Call, module: Module) -> Value:
    """`kernel` (*window, in, out) and `bias`; sizes of the result for `SAME` and `VALID` without dilation."""
    x, features = layout_as_array(call.argument_at(0, "inputs")), size_of(module.setting_value("features", None))
    window, groups = sizes_of(module.setting_value("kernel_size", None)), module.setting_value("feature_group_count", 1)
    if window is None or not isinstance(groups, int):
        _opaque_parts(call, module)
        return Layout()
    kernel = _layer_parameter(
        call, module, "kernel", (*window, divide_size(_last_size(x), groups), features), _KERNEL
    )
    bias = _parameter_if_enabled(
        call, module, "use_bias", lambda: _layer_parameter(call, module, "bias", (features,), _ZEROS)
    )
    if x.shape is None or len(x.shape) < len(window) + 1 or isinstance(bias, Unknown):
        return Layout()
    batch, spatial = x.shape[: -len(window) - 1], x.shape[-len(window) - 1 : -1]
    padding, steps = module.setting_value("padding", "SAME"), module.setting_value("strides", 1)
    if padding in ("CIRCULAR", "REFLECT") or (padding == "CAUSAL" and steps in (1, None, (1,))):
        padding = "SAME"
    spread, gaps = (module.setting_value(name, 1) for name in ("kernel_dilation", "input_dilation"))
    sizes = sweep_all(spatial, window, steps, padding, spread, gaps)
    return _apply_convolution(call, module, (x, kernel, bias), (*batch, *sizes, features))


def _apply_convolution(call: Call, module: Module, parts: Sequence[Value], shape: Shape) -> Value:
    """The result of a convolution of an array with a kernel and maybe a bias."""
    found = meet_operands(call, [one for one in parts if isinstance(one, Layout)])
    found = replace(found, mesh=None, spec=None) if found.is_explicit else found
    return _with_layer_dtype(module, found.with_shape(shape))


@register_layer(
    "ConvTranspose",
    "features kernel_size strides padding kernel_dilation use_bias mask dtype param_dtype precision kernel_init "
    "bias_init transpose_kernel",
)
def conv_transpose(call: Call, module: Module) -> Value:
    """`kernel` (*window, in, out) and `bias`; a dimension becomes larger by its stride."""
    x, features = layout_as_array(call.argument_at(0, "inputs")), size_of(module.setting_value("features", None))
    window, turned = (
        sizes_of(module.setting_value("kernel_size", None)),
        module.setting_value("transpose_kernel", False),
    )
    if window is None or not isinstance(turned, bool):
        _opaque_parts(call, module)
        return Layout()
    ends = (features, _last_size(x)) if turned else (_last_size(x), features)
    kernel = _layer_parameter(call, module, "kernel", (*window, *ends), _KERNEL)
    bias = _parameter_if_enabled(
        call, module, "use_bias", lambda: _layer_parameter(call, module, "bias", (features,), _ZEROS)
    )
    count = len(window)
    if x.shape is None or len(x.shape) < count + 1 or isinstance(bias, Unknown):
        return Layout()
    batch, spatial, padding = x.shape[: -count - 1], x.shape[-count - 1 : -1], module.setting_value("padding", "SAME")
    rows = zip(
        spatial, window, numbers_of(module.setting_value("strides", 1), count),
        paddings_of("SAME" if padding == "CIRCULAR" else padding, count),
        numbers_of(module.setting_value("kernel_dilation", 1), count), strict=True,
    )  # fmt: skip
    sizes = [transposed_size(size, wide, step, pad, far) for size, wide, step, pad, far in rows]
    return _apply_convolution(call, module, (x, kernel, bias), (*batch, *sizes, features))


@register_layer("Dropout", "rate broadcast_dims deterministic rng_collection rng")
def apply_dropout(call: Call, module: Module) -> Value:
    """Nothing where it is deterministic; else some entries are zero."""
    x = layout_as_array(call.argument_at(0, "inputs"))
    quiet = call.argument_at(1, "deterministic", None)
    quiet = module.setting_value("deterministic", None) if quiet is None else quiet
    if quiet is True or module.setting_value("rate", None) == 0:
        return x
    key = layout_as_array(make_rng(replace(call, args=(module, "dropout"), keywords={})))
    if quiet is False:
        check_drawn_for(replace(call, place=call.interpreter.place_in_body(call.place)), key, [x])
    same = quiet is False and x.varying is not None and key.varying is not None
    return replace(
        x,
        varying=x.varying | key.varying
        if same and x.varying is not None and key.varying is not None
        else None,
    )


@register_layer("Sequential", "layers")
def apply_sequential(call: Call, module: Module) -> Value:
    """One layer after the other."""
    layers = known_items(module.setting_value("layers", None))
    if layers is None:
        call.interpreter.doubts += 1
        return Unknown("a sequence of layers")
    args: tuple[Value, ...] = call.args
    keywords = call.keywords
    found: Value = args[0] if args else Unknown("nothing")
    for one in layers:
        found = call.interpreter.call_value(one, args, keywords, call.place)
        args, keywords = (found if isinstance(found, tuple) else (found,)), {}
    return found


def _opaque_layer(call: Call, module: Module) -> Value:
    """A layer of which nothing is followed."""
    _opaque_parts(call, module)
    return Unknown("what a layer gives")


_ATTENTION = """num_heads dtype param_dtype qkv_features out_features broadcast_dropout dropout_rate deterministic
precision kernel_init out_kernel_init bias_init out_bias_init use_bias attention_fn decode normalize_qk"""
_SHARED = ("dtype", "param_dtype", "kernel_init", "bias_init", "use_bias")


def apply_attention(call: Call, module: Module) -> Value:
    """Projections `query`, `key` and `value` of the inputs, and `out` of what comes of them."""
    run, queries = call.interpreter, layout_as_array(call.argument_at(0, "inputs_q"))
    given = [call.argument_at(1, "inputs_k", None), call.keywords.get("inputs_kv"), queries]
    keys = next(one for one in given if isinstance(one, Layout | AnyTree | Unknown))
    second = call.argument_at(2, "inputs_v", None)
    heads, inner, out = (module.setting_value(name, None) for name in ("num_heads", "qkv_features", "out_features"))
    inside, features = (_last_size(queries) if one is None else size_of(one) for one in (inner, out))
    size = divide_size(inside, size_of(heads))
    shared = {name: module.attributes[name] for name in _SHARED if name in module.attributes}

    def call_part(kind: str, array: Value, **fields: Value) -> Value:
        made = run.call_value(Library(f"flax.linen.{kind}"), (), fields, call.place)
        return run.call_value(made, (array,), {}, call.place)

    each = (heads, _size_or_unknown(size))
    projected = [
        call_part("DenseGeneral", one, **shared, features=each, name=name)
        for name, one in (("query", queries), ("key", keys), ("value", second if isinstance(second, Layout) else keys))
    ]
    if module.setting_value("normalize_qk", False) is not False:
        for name, one in zip(("query_ln", "key_ln"), projected, strict=False):
            call_part("LayerNorm", one, name=name, use_bias=False)
    if module.setting_value("decode", False) is not False:
        _opaque_parts(call, module, "cache")
    others = {name: module.setting_value(f"out_{name}", None) for name in ("kernel_init", "bias_init")}
    last = {**shared, **{name: one for name, one in others.items() if one is not None}}
    mixed = Layout((*queries.shape[:-1], size_of(heads), size) if queries.shape else None)
    return call_part(
        "DenseGeneral", mixed, **last, features=_size_or_unknown(features), axis=(-2, -1), name="out"
    )


def _size_or_unknown(size: Size) -> Value:
    return Unknown("a size") if size is None else size


for _name in ("MultiHeadDotProductAttention", "MultiHeadAttention", "SelfAttention"):
    register_layer(_name, _ATTENTION)(apply_attention)

OPAQUE = tuple(
    """LSTMCell OptimizedLSTMCell GRUCell MGUCell SimpleCell ConvLSTMCell RNN Bidirectional ConvLocal Einsum
InstanceNorm SpectralNorm WeightNorm PReLU Fp8DotGeneral Fp8DotGeneralOp NANOOFp8DotGeneralOp""".split()
)
"""Layers of which neither the variables nor the results are followed."""
for _name in OPAQUE:
    register_layer(_name, "")(_opaque_layer)

_HOMES = ("flax.linen", "flax.nnx")
register_function(
    *(f"{home} relu gelu silu swish sigmoid tanh softmax log_softmax softplus elu leaky_relu selu celu hard_tanh "
      "log_sigmoid soft_sign relu6 hard_sigmoid hard_swish standardize" for home in _HOMES)
)(apply_unary)  # fmt: skip

register_function(*(f"{home} one_hot" for home in _HOMES))(one_hot)
