"""jax.random: keys and draws."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from shardlint.layouts.layout import RAW_KEY, Layout, Shape
from shardlint.layouts.values import AnyTree, Call, Unknown, Value
from shardlint.libraries.draws import check_drawn_for, note_draw
from shardlint.libraries.jax_numpy import dtype_of, make_array, sizes_of
from shardlint.libraries.meeting import (
    broadcast_shapes,
    check_devices,
    common_properties,
    is_recent,
    layout_as_array,
    meet_operands,
    spec_entry,
)
from shardlint.libraries.registry import register_function

DRAWS = {
    1: "normal uniform randint bits exponential laplace gumbel rademacher cauchy logistic",
    2: "bernoulli gamma poisson orthogonal",
    3: "truncated_normal beta ball",
}
_DTYPES = {"randint": "int32", "poisson": "int32", "rademacher": "int32", "bits": "uint32", "bernoulli": "bool"}


@register_function("jax.random key PRNGKey wrap_key_data")
def random_key(call: Call) -> Value:
    """A key."""
    typed = not call.name.endswith("PRNGKey")
    return replace(make_array(call, () if typed else (2,), None), dtype="key" if typed else RAW_KEY)


@register_function("jax.random fold_in clone")
def fold_in_key(call: Call) -> Value:
    """Another key; it varies along the axes of the key and of what is folded in."""
    base, data = layout_as_array(call.argument_at(0, "key")), layout_as_array(call.argument_at(1, "data", 0))
    check_devices(call, [base, data])
    both = common_properties([base, data]) if not data.literal else base
    figure = base.figure if base.differing_axes == both.differing_axes else None
    return replace(base.varying_like(both), dtype=base.dtype if base.is_key else "key", figure=figure)


@register_function("jax.random split")
def split_key(call: Call) -> Value:
    """Keys along a new first dimension."""
    base, count = layout_as_array(call.argument_at(0, "key")), sizes_of(call.argument_at(1, "num", 2))
    check_devices(call, [base])
    shape = (*count, *base.shape) if base.shape is not None and count is not None else None
    spec = ((),) * len(shape) if shape is not None and base.mesh is not None else None
    return replace(base, dtype=base.dtype if base.is_key else "key", shape=shape, spec=spec)


def _draw_samples(position: int, call: Call) -> Value:
    base = layout_as_array(call.argument_at(0, "key"))
    check_devices(call, [base])
    given = call.argument_at(position, "shape", None)
    if given is None:
        given = _shape_of_parameters(call, base, position)
    draw = note_draw(call, base, given)
    if isinstance(given, Unknown):
        return replace(make_array(call, None, None).varying_like(base), drawn=draw)
    dtype = call.keywords.get("dtype")
    default = _DTYPES.get(call.function_name, "float32")
    found = make_array(call, _with_matrices(call, sizes_of(given)), default if dtype is None else dtype_of(dtype))
    return replace(found.varying_like(base), drawn=draw)


def _shape_of_parameters(call: Call, key: Layout, position: int) -> Value:
    """The shape of numbers for which none is given: that of the parameters of the distribution."""
    arrays = [layout_as_array(one) for one in call.args[1:position] if isinstance(one, Layout | AnyTree)]
    check_drawn_for(call, key, arrays)
    shape = broadcast_shapes([one.shape for one in arrays]) if arrays else ()
    return Unknown("a shape") if shape is None else tuple(Unknown("a size") if one is None else one for one in shape)


def _with_matrices(call: Call, shape: Shape | None) -> Shape | None:
    """The shape with the dimensions that each draw has itself."""
    size = call.argument_at(1, "n" if call.function_name == "orthogonal" else "d")
    size = size if isinstance(size, int) else None
    more = {"orthogonal": (size, size), "ball": (size,)}.get(call.function_name, ())
    return (*shape, *more) if shape is not None else None


for _position, _names in DRAWS.items():
    register_function(f"jax.random {_names}")(partial(_draw_samples, _position))


def _varying_axes(call: Call) -> frozenset[str] | None:
    """The axes along which the key or an array that is drawn from varies."""
    arrays = [layout_as_array(one) for one in (*call.args, *call.keywords.values())]
    if any(one.varying is None for one in arrays):
        return None
    return frozenset[str]().union(*(one.varying for one in arrays if one.varying is not None))


@register_function("jax.random permutation choice")
def shuffle_rows(call: Call) -> Value:
    """Numbers or rows in another order, or one of them. Over Explicit axes the dimension is whole."""
    key, given = (
        layout_as_array(call.argument_at(0, "key")),
        call.argument_at(1, "x" if call.name.endswith("permutation") else "a"),
    )
    array = layout_as_array(given)
    one = call.name.endswith("choice")
    shape = (call.args[2:3] or (call.keywords.get("shape", ()),))[0] if one else None
    axis = call.keywords.get("axis", 0)
    if isinstance(given, int) or array.rank is None or axis != 0 or (one and shape != ()):
        numbers = (given,) if isinstance(given, int) and not one else None
        return replace(make_array(call, numbers, None), varying=_varying_axes(call))
    found = replace(meet_operands(call, [array, key]), dtype=array.dtype, varying=_varying_axes(call))
    spec = array.typed_spec
    if array.is_explicit and array.rank == 1 and not is_recent(call):
        return replace(found, mesh=None).with_shape(array.shape[1:] if one and array.shape else array.shape)
    if array.is_explicit and spec_entry(array, 0):
        operation, axes = call.function_name, "/".join(spec_entry(array, 0) or ())
        call.interpreter.record_violation("along.split", call.place, array=str(array), axes=axes, operation=operation)
        return replace(found, mesh=None).with_shape((array.shape or ())[1 if one else 0 :])
    return found.with_shape(
        (array.shape or ())[1 if one else 0 :], spec[1 if one else 0 :] if spec is not None else None
    )


@register_function("jax.random categorical")
def draw_categories(call: Call) -> Value:
    """The number of a class for each row of logits."""
    key, logits = layout_as_array(call.argument_at(0, "key")), layout_as_array(call.argument_at(1, "logits"))
    check_drawn_for(call, key, [logits])
    if call.argument_at(2, "axis", -1) != -1 or call.has_argument(3, "shape") or not logits.shape:
        return Layout(varying=_varying_axes(call))
    found = replace(meet_operands(call, [logits, key]), dtype="int32", varying=_varying_axes(call))
    return found.with_shape(logits.shape[:-1], logits.typed_spec[:-1] if logits.typed_spec is not None else None)


@register_function("jax.random dirichlet")
def draw_unknown_shape(call: Call) -> Value:
    """Draws whose shape is not followed."""
    return Layout(varying=_varying_axes(call))
