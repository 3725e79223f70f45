"""jax.random: keys and draws."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import Call, Unknown, Value
from shardlint.libraries.jax_numpy import _fresh, dtype_of, sizes_of
from shardlint.libraries.meeting import as_array
from shardlint.libraries.registry import function

_DRAWS = {
    1: "normal uniform randint bits exponential laplace gumbel rademacher cauchy logistic orthogonal ball",
    2: "bernoulli gamma beta poisson",
    3: "truncated_normal",
}


@function("jax.random key PRNGKey wrap_key_data")
def key(call: Call) -> Value:
    """A key."""
    return replace(_fresh(call, () if call.name.endswith(".key") else (2,), None), dtype="key")


@function("jax.random fold_in clone")
def folded(call: Call) -> Value:
    """Another key; it varies along the axes of the key and of what is folded in."""
    base, data = as_array(call.get(0, "key")), as_array(call.get(1, "data", 0))
    varying = base.varying | data.varying if base.varying is not None and data.varying is not None else None
    return replace(base, varying=varying, dtype="key")


@function("jax.random split")
def split(call: Call) -> Value:
    """Keys along a new first dimension."""
    base, count = as_array(call.get(0, "key")), sizes_of(call.get(1, "num", 2))
    shape = (*count, *base.shape) if base.shape is not None and count is not None else None
    spec = ((),) * len(shape) if shape is not None and base.mesh is not None else None
    return replace(base, dtype="key", shape=shape, spec=spec)


def _drawn(position: int, call: Call) -> Value:
    base = as_array(call.get(0, "key"))
    given = call.get(position, "shape", ())
    if isinstance(given, Unknown):
        return replace(_fresh(call, None, None), varying=base.varying)
    dtype = call.keywords.get("dtype")
    default = (
        "int32"
        if call.name.endswith(("randint", "bits"))
        else "bool"
        if call.name.endswith("bernoulli")
        else "float32"
    )
    found = _fresh(call, sizes_of(given), default if dtype is None else dtype_of(dtype))
    return replace(found, varying=base.varying, drawn=call.place if call.interpreter.axes else None)


for _position, _names in _DRAWS.items():
    function(f"jax.random {_names}")(partial(_drawn, _position))


@function("jax.random permutation choice categorical dirichlet")
def chosen(call: Call) -> Value:
    """Draws whose shape is not followed."""
    return Layout(varying=as_array(call.get(0, "key")).varying)
