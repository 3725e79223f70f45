"""SL509."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import CallArguments, CallResult, Function, Place, Value, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings

_READERS = tuple(
    f"flax.{module}.{name}"
    for module in ("linen", "core.meta", "linen.meta")
    for name in ("get_partition_spec", "get_sharding")
)
_UNBOXES = ("flax.linen.unbox", "flax.core.meta.unbox", "flax.linen.meta.unbox", "flax.core.unbox")
_STATES = ("flax.training.train_state.TrainState.create",)
_DEPTH = 4


class SpecAfterUnbox(Rule):
    """Code reads the specs of linen variables after `unbox` has removed the specs.

    `nn.with_partitioning` wraps a variable in an `nn.Partitioned` box that holds its axis names, and `unbox` returns
    the bare array. Every spec is then `P()`, so all weights are replicated. Nothing is raised.

    ## Reports
    - proven: `nn.get_partition_spec` or `nn.get_sharding` of a result of `nn.unbox`, also through `jax.eval_shape` or
      `TrainState.create(params=nn.unbox(...))`. If the function passed to `jax.eval_shape` calls `unbox`, the finding
      is at the `unbox` call.

    ## Write instead
    Read the specs of the boxed variables, then unbox.

    ## Fix
    Passes the boxed variables instead, if the code assigns them to a variable. Unsafe: the weights are then sharded.
    """

    code = "SL509"
    name = "spec-after-unbox"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (Calls(*_READERS, file_says=("unbox",)),)
    fixes = "unsafe"

    @detector("call")
    def report_read(self, site: Site) -> Finding | None:
        """A read of the specs of unboxed arrays."""
        if not site.call.args:
            return None
        argument = site.call.args[0]
        found = [_find_unbox_call(site, value) for value in options(site.value(argument))]
        if not found or any(one is None for one in found):
            return None
        first = found[0]
        assert first is not None
        at = f"line {first.place.line}" if first.place.file is site.file else first.place.file.path.name
        name = site.short_name
        inside = first.place.file is site.file and _is_unboxing_function_named(site, argument)
        message = f"`{name}` gives every unboxed array the spec `P()`, so all weights are replicated."
        if inside:
            return site.finding(
                first.place.node,
                message,
                why=f"line {site.call.lineno} reads the specs of the arrays that this function returns",
                help="return the boxed variables, read their specs, then unbox",
            )
        return site.finding(
            argument,
            message,
            label=f"unboxed at {at}",
            help="read the specs of the boxed variables, then unbox",
            fix=self._write_fix(site, argument, first),
        )

    def _write_fix(self, site: Site, argument: ast.expr, unboxed: CallArguments) -> Fix | None:
        """Read the boxed variables instead, if `unbox` was given a name that still stands for them."""
        call = unboxed.place.node
        if unboxed.place.file is not site.file or not isinstance(call, ast.Call) or len(call.args) != 1:
            return None
        boxed = call.args[0]
        if not isinstance(boxed, ast.Name) or site.file.evaluation_scope(boxed) is not site.scope:
            return None
        before, _ = lookup_bindings(site.file, boxed, boxed.id)
        now, _ = lookup_bindings(site.file, argument, boxed.id)
        same = len(before) == 1 and [one.node for one in before] == [one.node for one in now]
        value = site.value(argument)
        if not same or not (isinstance(value, CallResult) and value.api in _UNBOXES):
            return None
        edit = site.replace(argument, boxed.id)
        return site.fix(
            Safety.UNSAFE, f"read the specs of `{boxed.id}`", [edit], "the weights are then sharded"
        )


def _find_unbox_call(site: Site, value: Value, depth: int = 0) -> CallArguments | None:
    """The call of `unbox` that a tree surely comes from."""
    if not isinstance(value, CallResult) or value.call is None or depth > _DEPTH:
        return None
    if value.api in _UNBOXES:
        return value.call
    if value.api == "jax.eval_shape" and value.call.positional:
        function = site.program.evaluator.value(value.call.positional[0], value.call.environment)
        if isinstance(function, Function):
            arguments = CallArguments(value.call.place, (), {}, open_positional=True)
            return _unbox_of_every_option(site, site.program.evaluator.apply_callee(function, arguments), depth)
    if value.api in _STATES and "params" in value.call.keywords:
        return _unbox_of_every_option(
            site, _argument_value(site, value.call, value.call.keywords["params"]), depth
        )
    return None


def _argument_value(site: Site, call: CallArguments, place: Place) -> Value:
    """Return the value of the argument; for a part of an unboxed tree, `variables["params"]`, that of the whole
    tree.
    """
    node = place.node
    while isinstance(node, ast.Subscript):
        node = node.value
    return site.program.evaluator.value(Place(place.file, node), call.environment)


def _is_unboxing_function_named(site: Site, argument: ast.expr) -> bool:
    """Return whether the function whose result is unboxed is named here, where the spec must be read."""
    found = options(site.value(argument))
    return all(isinstance(one, CallResult) and one.api == "jax.eval_shape" for one in found)


def _unbox_of_every_option(site: Site, value: Value, depth: int) -> CallArguments | None:
    found = [_find_unbox_call(site, option, depth + 1) for option in options(value)]
    return found[0] if found and all(one is not None for one in found) else None
