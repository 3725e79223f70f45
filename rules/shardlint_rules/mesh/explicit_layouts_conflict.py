"""SL353."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site

_OUTSIDE = "; outside `jax.set_mesh` write `NamedSharding(mesh, P(...))` for `P(...)`"

# By kind: the effect, and what to write.
_TEXTS = {
    "closure.explicit": (
        "This `shard_map` raises NotImplementedError or ValueError: its body closes over an array on a mesh "
        "with Explicit axes.",
        "pass the array as an argument, with its spec in `in_specs`",
    ),
    "contraction.ambiguous": (
        "This contraction raises ShardingTypeError: both operands shard the summed dimension over {axes}.",
        "add `out_sharding=P(...)` with the sharding of the result, or reshard one operand first with `jax.reshard`"
        + _OUTSIDE,
    ),
    "contraction.conflict": (
        "This contraction raises ShardingTypeError: its operands shard one dimension over {axes} and {other}.",
        "reshard one operand with `jax.reshard`, so that both agree",
    ),
    "contraction.illegal": (
        "This contraction raises ShardingTypeError: its result would have two dimensions sharded over {axes}.",
        "reshard one operand with `jax.reshard`, or add `out_sharding=P(...)`" + _OUTSIDE,
    ),
    "elementwise.conflict": (
        "This operation raises ShardingTypeError: its operands are sharded differently over {axes}.",
        "reshard one operand with `jax.reshard`, so that both agree",
    ),
    "concatenate.conflict": (
        "This raises ShardingTypeError: the concatenated arrays are sharded differently.",
        "reshard the arrays with `jax.reshard`, so that all agree",
    ),
    "along.split": (
        "{operation} raises ShardingTypeError: it runs along a dimension that is sharded over {axes}.",
        "reshard the array with `jax.reshard`, so that this dimension is not sharded",
    ),
    "whole.split": (
        "{operation} raises ShardingTypeError or ValueError: its array must be unsharded, not sharded over {axes}.",
        "write `jax.reshard(x, P())`; outside `jax.set_mesh` write `jax.reshard(x, NamedSharding(mesh, P()))`",
    ),
    "size.split": (
        "{operation} raises ShardingTypeError: the new size of a sharded dimension is not divisible by {axes}.",
        "reshard the array with `jax.reshard`, so that this dimension is not sharded",
    ),
    "carry.spec": (
        "{operation} raises TypeError: its body returns the carry with another sharding than it gets.",
        "reshard the initial carry with `jax.reshard`, so that it has the sharding of the result",
    ),
    "index.split": (
        "This index raises ShardingTypeError: it slices a dimension that is sharded over {axes}.",
        "reshard the array with `jax.reshard`, so that this dimension is not sharded; or, if the index is an array, "
        "write `x.at[ids].get(out_sharding=P(...))` with the sharding of the result" + _OUTSIDE,
    ),
    "index.by-split": (
        "This indexing raises ShardingTypeError: its index is sharded over {axes}.",
        "write `x.at[...].get(out_sharding=P(...))` with the sharding of the result" + _OUTSIDE,
    ),
    "update.conflict": (
        "This update raises ShardingTypeError: it is sharded differently from the array.",
        "reshard the update with `jax.reshard`, so that both agree",
    ),
    "reshape.split": (
        "This reshape raises ShardingTypeError: it splits or merges a dimension that is sharded over {axes}.",
        "add `out_sharding=P(...)` with the sharding of the result, or reshard the array first" + _OUTSIDE,
    ),
    "scatter.split": (
        "This update raises ShardingTypeError: the array is sharded over {axes}, and the call has no `out_sharding`.",
        "write `x.at[i].set(y, out_sharding=P(...))`" + _OUTSIDE,
    ),
    "rows.split": (
        "{operation} raises ValueError: it iterates over a dimension that is sharded over {axes}.",
        "reshard the array with `jax.reshard`, so that its first dimension is not sharded",
    ),
    "vmap.conflict": (
        "`vmap` raises ValueError: the mapped dimension is sharded over {left} in one argument, {right} in another.",
        "reshard the arguments with `jax.reshard`, so that their mapped dimensions agree",
    ),
}


class ExplicitLayoutsConflict(Rule):
    """An operation over Explicit axes raises: jax cannot derive the sharding of its result.

    With Explicit axes the sharding is part of an array's type. jax derives the sharding of each result from the
    operands. If they do not determine it, jax raises ShardingTypeError. Some operations raise ValueError, TypeError or
    NotImplementedError.

    ## Reports
    - proven: a contraction whose operands are both sharded along the summed dimension.
    - proven: a contraction whose operands shard another dimension over different axes, or whose result would name one
      axis twice.
    - proven: an elementwise operation on arrays that shard one dimension over different axes.
    - proven: a concatenation of arrays that are sharded differently, or a `vmap` whose mapped dimensions are.
    - proven: a reshape that splits or merges a sharded dimension, if no dimension of the result keeps its axes.
    - proven: `x.at[...].set` without `out_sharding` at an index of a sharded dimension. Outside `jax.set_mesh` also of
      any other sharded array (before jax 0.12 only outside jit).
    - proven: an index, `sort`, `top_k`, `cumsum`, `roll`, `scan` or `lax.map` along a sharded dimension.
    - proven: an index that is itself a sharded array.
    - proven: `nonzero`, `unique`, `searchsorted`, `histogram` or `convolve` of a sharded array.
    - proven: a slice, pad, `diff` or `rfft` whose result has a size that the mesh axes do not divide.
    - proven: a loop whose body returns the carry with another sharding than it gets.
    - proven: `dynamic_update_slice` with an update that is sharded differently from the array.
    - proven: a `shard_map` whose body closes over an array on a mesh with Explicit axes.

    ## Write instead
    Pass the sharding of the result as `out_sharding=P(...)`, or reshard one operand first with `jax.reshard`. For an
    array as the index write `x.at[ids].get(out_sharding=P(...))`. For a number or a slice as the index reshard the
    array: `x.at[0].get(out_sharding=P(...))` raises inside jit too. Outside `jax.set_mesh` write `NamedSharding(mesh,
    P(...))` in place of `P(...)`.

    ## Limits
    Reported only if shardlint can compute the shapes and shardings of the operands from the code.
    """

    code = "SL353"
    name = "explicit-layouts-conflict"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.3"}
    triggers = (Violates(*_TEXTS),)
    fixes = "none"

    @detector("violation")
    def report_conflict(self, site: Site) -> Finding | None:
        """The operation on arrays whose shardings conflict."""
        broken = site.violation
        message, help = _TEXTS[broken.kind]
        operands = [
            broken.said[name] for name in ("left", "right", "array") if "[" in broken.said.get(name, "")
        ]
        why = f"the shardings are {' and '.join(f'`{one}`' for one in operands)}" if operands else ""
        return site.report_violation(
            message, help=help, why=why, words={"axes": "", "other": "", **broken.quoted_details}
        )
