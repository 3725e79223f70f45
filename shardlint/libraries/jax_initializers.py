"""Initializers of jax.nn, which flax has too: functions of a key, a shape and a type."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.values import Call, Library, Native, Value
from shardlint.libraries.jax_numpy import dtype_of, place_new, sizes_of
from shardlint.libraries.meeting import fresh_array, layout_as_array
from shardlint.libraries.registry import register_function

_INITIALIZERS = ("jax.nn.initializers", "flax.linen.initializers", "flax.nnx.initializers")
_CONSTANT = "zeros ones"
RANDOM_MAKERS = """delta_orthogonal variance_scaling glorot_uniform glorot_normal xavier_uniform xavier_normal
lecun_uniform lecun_normal he_uniform he_normal kaiming_uniform kaiming_normal"""
_MAKERS = f"zeros_init ones_init constant normal uniform truncated_normal orthogonal {RANDOM_MAKERS}"
_DTYPE = {"constant": 1, "normal": 1, "uniform": 1, "truncated_normal": 1, "variance_scaling": 6}
_DTYPE |= {"orthogonal": 2, "delta_orthogonal": 2}
"""Where makers of initializers take a type; others have three axes before it."""


@register_function(
    *(f"{home} {_CONSTANT}" for home in _INITIALIZERS),
    "flax.linen.linear default_kernel_init default_embed_init",
    "flax.linen default_kernel_init",
)
def initialize_array(call: Call) -> Value:
    """An array of the shape given, of numbers drawn with the key or of one number."""
    key, shape, dtype = (
        layout_as_array(call.argument_at(0, "key")),
        call.argument_at(1, "shape"),
        call.argument_at(2, "dtype", None),
    )
    made = fresh_array(call, sizes_of(shape), "float32" if dtype is None else dtype_of(dtype))
    if call.has_argument(3, "out_sharding"):
        return place_new(call, made, call.argument_at(3, "out_sharding"))
    if call.function_name.startswith(("zeros", "ones", "constant")):
        return made
    if key.committed is not False and not made.is_explicit:  # a draw is where its key is
        made = replace(made, mesh=None, spec=None, committed=None)
    return replace(made, varying=key.varying)


@register_function(*(f"{home} {_MAKERS}" for home in _INITIALIZERS))
def make_initializer(call: Call) -> Value:
    """A function that makes arrays."""
    dtype = call.argument_at(_DTYPE.get(call.function_name, 3), "dtype", Library("jax.numpy.float32"))

    def call_initializer(again: Call) -> Value:
        keywords = {
            "dtype": again.argument_at(2, "dtype", dtype),
            "out_sharding": again.argument_at(3, "out_sharding", None),
        }
        args = (again.argument_at(0, "key"), again.argument_at(1, "shape"))
        return initialize_array(replace(again, name=call.name, args=args, keywords=keywords, open=False))

    return Native(call.name, call_initializer)
