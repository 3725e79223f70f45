"""Layers of flax linen: the variables that each has, and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape, Size
from shardlint.layouts.values import Call, Library, Native, Unknown, Value, known_items
from shardlint.libraries.draws import check_drawn_for
from shardlint.libraries.flax_linen import entered
from shardlint.libraries.flax_modules import LAYER_NAMES, Apply, Module, bound
from shardlint.libraries.flax_variables import make_rng, param, variable
from shardlint.libraries.jax_numpy import dtype_of, size_of, unary
from shardlint.libraries.jax_slices import one_hot
from shardlint.libraries.meeting import as_array, fresh, meet
from shardlint.libraries.registry import function

# layers


def layer(name: str, fields: str) -> Callable[[Apply], Apply]:
    """Enter a layer of linen with its fields, in their order."""

    def enter(apply: Apply) -> Apply:
        def make(call: Call) -> Value:
            given = dict(zip(fields.split(), call.args, strict=False))
            return bound(call, Module(None, {**given, **call.keywords}, call.open, region=call.interpreter.region,
                                      apply=apply, class_name=name))  # fmt: skip

        LAYER_NAMES.add(f"flax.linen.{name}")
        function(f"flax.linen.{name}")(make)
        return apply

    return enter


def _parameter(call: Call, module: Module, name: str, shape: Shape, default: str, init: str = "") -> Value:
    """A parameter of a layer, made by the initializer that its fields give; the one that a layer of NNX has."""
    if not isinstance(module, Module):
        return as_array(call.interpreter.current_copy(module.setting(name, Unknown("a parameter"))))
    maker = module.setting(init or f"{name}_init", Library(default))
    dtype = module.setting("param_dtype", Library("jax.numpy.float32"))
    sizes = tuple(Unknown("a size") if one is None else one for one in shape)
    return as_array(param(replace(call, args=(module, name, maker, sizes, dtype), keywords={}, open=False)))


def _last(array: Layout) -> Size:
    return array.shape[-1] if array.shape else None


def _when(call: Call, module: Module, name: str, make: Callable[[], Value]) -> Value:
    """A parameter that a field turns off; what it is, or None; unknown where that is not known."""
    wanted = module.setting(name, True)
    if wanted is False:
        return None
    if wanted is True:
        return make()
    with call.interpreter.uncertain():
        make()
    return Unknown("a parameter that may be there")


def _typed(module: Module, array: Value, *parameters: Value) -> Value:
    """The result of a layer: of the type that its `dtype` says."""
    dtype = module.setting("dtype", None)
    if isinstance(array, Layout) and dtype is not None:
        return replace(array, dtype=dtype_of(dtype))
    return array


_DENSE = "features use_bias dtype param_dtype precision kernel_init bias_init promote_dtype dot_general dot_general_cls"
_ZEROS, _KERNEL = "flax.linen.initializers.zeros", "flax.linen.linear.default_kernel_init"


@layer("Dense", _DENSE)
def dense(call: Call, module: Module) -> Value:
    """A product with `kernel` (in, out), and `bias`."""
    run, x, features = (
        call.interpreter,
        as_array(call.get(0, "inputs")),
        size_of(module.setting("features", None)),
    )
    kernel = _parameter(call, module, "kernel", (_last(x), features), _KERNEL)
    bias = _when(call, module, "use_bias", lambda: _parameter(call, module, "bias", (features,), _ZEROS))
    if module.setting("dot_general", None) is not None or module.setting("dot_general_cls", None) is not None:
        return Layout((*x.shape[:-1], features) if x.shape else None)
    found = run.call(Library("jax.numpy.matmul"), (x, kernel), {}, call.place)
    if isinstance(bias, Layout):
        found = run.call(Library("jax.numpy.add"), (found, bias), {}, call.place)
    return _typed(module, found if not isinstance(bias, Unknown) else Layout(as_array(found).shape))


@layer("DenseGeneral", "features axis batch_axis use_bias")
def dense_general(call: Call, module: Module) -> Value:
    """A contraction of the last dimensions with `kernel`, whose other dimensions are the features."""
    x, features = as_array(call.get(0, "inputs")), module.setting("features", None)
    axis, batch = module.setting("axis", -1), module.setting("batch_axis", None)
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
    _parameter(call, module, "kernel", (*inside, *sizes), _KERNEL)
    _when(call, module, "use_bias", lambda: _parameter(call, module, "bias", sizes, _ZEROS))
    return _typed(module, Layout((*(x.shape or ())[: (rank or 0) - len(inside)], *sizes)))


def _opaque_parts(call: Call, module: Module) -> None:
    """Say that a layer has variables of which nothing is known."""
    if isinstance(module, Module) and module.scope is not None:
        module.scope.made("params").open = True


@layer("Embed", "num_embeddings features dtype param_dtype embedding_init")
def embed(call: Call, module: Module) -> Value:
    """Rows of `embedding` (count, features)."""
    x, (table, _, features) = as_array(call.get(0, "inputs")), _embedding(call, module)
    base = meet(call, [table, x])
    found = replace(base, mesh=None, spec=None) if base.explicit else base
    shape = (*x.shape, features) if x.shape is not None else None
    return _typed(module, replace(found, dtype=table.dtype).shaped(shape))


def _embedding(call: Call, module: Module) -> tuple[Layout, Size, Size]:
    """The table of an Embed, and its sizes."""
    sizes = size_of(module.setting("num_embeddings", None)), size_of(module.setting("features", None))
    made = _parameter(call, module, "embedding", sizes, "flax.linen.linear.default_embed_init")
    return as_array(made), *sizes


@function("flax.linen.Embed.attend")
def attend(call: Call) -> Value:
    """The product with the transposed `embedding`."""
    module = call.args[0]
    if not isinstance(module, Module) or module.scope is None:
        return Unknown("a layer outside of `apply`")

    def run(again: Call) -> Value:
        x, (table, count, _) = as_array(again.get(0, "query")), _embedding(again, module)
        base = replace(meet(again, [table, x]), mesh=None, spec=None)
        return _typed(module, base.shaped((*x.shape[:-1], count) if x.shape else None))

    return entered(replace(call, args=call.args[1:]), module, run)


_NORM = (
    "epsilon dtype param_dtype use_bias use_scale bias_init scale_init reduction_axes feature_axes axis_name"
)


@layer("LayerNorm", _NORM)
def layer_norm(call: Call, module: Module) -> Value:
    """`scale` and `bias` of the last dimension; the result is like the argument."""
    return normalized(call, module, ("bias", "scale"))


@layer("RMSNorm", "epsilon dtype param_dtype use_scale scale_init reduction_axes feature_axes axis_name")
def rms_norm(call: Call, module: Module) -> Value:
    """`scale` of the last dimension."""
    return normalized(call, module, ("scale",))


@layer("GroupNorm", "num_groups group_size epsilon dtype param_dtype use_bias use_scale bias_init scale_init")
def group_norm(call: Call, module: Module) -> Value:
    """`scale` and `bias` of the last dimension."""
    return normalized(call, module, ("bias", "scale"))


def normalized(call: Call, module: Module, names: tuple[str, ...]) -> Value:
    """An array normalized over its last dimension, with the parameters that are named."""
    x = as_array(call.get(0, "x"))
    if module.setting("feature_axes", module.setting("axis", -1)) != -1:
        _opaque_parts(call, module)
        return Layout(x.shape)
    found: Value = x
    for name in names:
        default = "flax.linen.initializers.ones" if name == "scale" else _ZEROS
        held = _when(
            call, module, f"use_{name}", lambda name=name, default=default: _parameter(  # type: ignore[misc]
                call, module, name, (_last(x),), default)
        )  # fmt: skip
        if isinstance(held, Layout):
            found = call.interpreter.call(Library("jax.numpy.multiply"), (found, held), {}, call.place)
        elif isinstance(held, Unknown):
            found = Layout(x.shape)
    return _typed(module, found)


@layer(
    "BatchNorm",
    "use_running_average axis momentum epsilon dtype param_dtype use_bias use_scale bias_init scale_init axis_name",
)
def batch_norm(call: Call, module: Module) -> Value:
    """`mean` and `var` in `batch_stats`, changed to those of the batch of each device or of an axis."""
    x, size = as_array(call.get(0, "x")), (_last(as_array(call.get(0, "x"))),)
    running = call.get(1, "use_running_average", None)
    running = module.setting("use_running_average", None) if running is None else running
    if module.setting("axis", -1) != -1:
        _opaque_parts(call, module)
        return Layout(x.shape)
    initializing = module.scope is not None and module.scope.app.initializing
    for name in ("mean", "var"):
        make = Native(name, lambda again: fresh(again, size, "float32"))
        held = variable(replace(call, args=(module, "batch_stats", name, make), keywords={}, open=False))
        if initializing or running is True:
            continue
        before, axis = as_array(held.attributes["value"]), module.setting("axis_name", None)
        own = (
            x.varying - {axis}
            if x.varying is not None and isinstance(axis, str)
            else x.varying
            if axis is None
            else None
        )
        varying = (
            None if own is None or before.varying is None or running is not False else own | before.varying
        )
        held.attributes["value"] = Layout(size, "float32", varying=varying, host=False)
    return normalized(call, module, ("bias", "scale"))


@layer(
    "Conv",
    "features kernel_size strides padding input_dilation kernel_dilation feature_group_count use_bias mask dtype "
    "param_dtype precision kernel_init bias_init",
)
def conv(call: Call, module: Module) -> Value:
    """`kernel` (*window, in, out) and `bias`; sizes of the result for `SAME` and `VALID` without dilation."""
    x, features = as_array(call.get(0, "inputs")), size_of(module.setting("features", None))
    given = module.setting("kernel_size", None)
    window = (given,) if isinstance(given, int) else known_items(given)
    groups = module.setting("feature_group_count", 1)
    if window is None or not isinstance(groups, int):
        _opaque_parts(call, module)
        return Layout()
    inside = _last(x)
    inside = inside // groups if isinstance(inside, int) and groups else inside if groups == 1 else None
    kernel = _parameter(call, module, "kernel", (*map(size_of, window), inside, features), _KERNEL)
    bias = _when(call, module, "use_bias", lambda: _parameter(call, module, "bias", (features,), _ZEROS))
    if x.shape is None or len(x.shape) < len(window) + 1 or isinstance(bias, Unknown):
        return Layout()
    batch, spatial = x.shape[: -len(window) - 1], x.shape[-len(window) - 1 : -1]
    moved = module.setting("strides", 1)
    steps = (
        (moved or 1,) * len(window)
        if isinstance(moved, int | None)
        else known_items(moved) or (None,) * len(window)
    )
    plain = all(module.setting(name, 1) in (1, None) for name in ("input_dilation", "kernel_dilation"))
    padding = module.setting("padding", "SAME") if plain else None
    sizes = (
        tuple(_swept(*one, padding) for one in zip(spatial, window, steps, strict=True))
        if len(steps) == len(window)
        else ()
    )
    operands = [one for one in (x, as_array(kernel), bias) if isinstance(one, Layout)]
    found = meet(call, operands)
    found = replace(found, mesh=None, spec=None) if found.explicit else found
    return _typed(module, found.shaped((*batch, *sizes, features) if sizes else None))


def _swept(size: Size, window: Value, step: Value, padding: Value) -> Size:
    """How often a window fits along a dimension."""
    if not (isinstance(size, int) and isinstance(window, int) and isinstance(step, int) and step > 0):
        return None
    if padding == "SAME":
        return -(-size // step)
    return -(-(size - window + 1) // step) if padding == "VALID" else None


@layer("Dropout", "rate broadcast_dims deterministic rng_collection rng")
def dropout(call: Call, module: Module) -> Value:
    """Nothing where it is deterministic; else some entries are zero."""
    x = as_array(call.get(0, "inputs"))
    quiet = call.get(1, "deterministic", None)
    quiet = module.setting("deterministic", None) if quiet is None else quiet
    if quiet is True or module.setting("rate", None) == 0:
        return x
    key = as_array(make_rng(replace(call, args=(module, "dropout"), keywords={})))
    if quiet is False:
        check_drawn_for(replace(call, place=call.interpreter.place_in_body(call.place)), key, [x])
    same = quiet is False and x.varying is not None and key.varying is not None
    return replace(
        x,
        varying=x.varying | key.varying
        if same and x.varying is not None and key.varying is not None
        else None,
    )


@layer("Sequential", "layers")
def sequential(call: Call, module: Module) -> Value:
    """One layer after the other."""
    layers = known_items(module.setting("layers", None))
    if layers is None:
        call.interpreter.doubts += 1
        return Unknown("a sequence of layers")
    args: tuple[Value, ...] = call.args
    keywords = call.keywords
    found: Value = args[0] if args else Unknown("nothing")
    for one in layers:
        found = call.interpreter.call(one, args, keywords, call.place)
        args, keywords = (found if isinstance(found, tuple) else (found,)), {}
    return found


def _opaque(call: Call, module: Module) -> Value:
    """A layer of which nothing is followed."""
    _opaque_parts(call, module)
    return Unknown("what a layer gives")


for _name in """MultiHeadDotProductAttention MultiHeadAttention SelfAttention LSTMCell OptimizedLSTMCell GRUCell MGUCell
SimpleCell ConvLSTMCell RNN Bidirectional ConvTranspose ConvLocal Einsum InstanceNorm SpectralNorm WeightNorm PReLU
Fp8DotGeneral Fp8DotGeneralOp NANOOFp8DotGeneralOp""".split():
    layer(_name, "")(_opaque)

_HOMES = ("flax.linen", "flax.nnx")
function(
    *(f"{home} relu gelu silu swish sigmoid tanh softmax log_softmax softplus elu leaky_relu selu celu hard_tanh "
      "log_sigmoid soft_sign relu6 hard_sigmoid hard_swish standardize" for home in _HOMES)
)(unary)  # fmt: skip

function(*(f"{home} one_hot" for home in _HOMES))(one_hot)
