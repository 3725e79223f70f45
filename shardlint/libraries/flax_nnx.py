"""flax.nnx: shardings of state."""

from __future__ import annotations

from shardlint.layouts.values import Call, Instance, Value
from shardlint.libraries.registry import function


class VariableShardings(Instance):
    """What `nnx.get_named_sharding` gives: Variables that hold shardings in place of arrays."""


@function("flax.nnx get_named_sharding")
def get_named_sharding(call: Call) -> Value:
    """The shardings of a state, each in its Variable."""
    return VariableShardings(None, {}, True)
