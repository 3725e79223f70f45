"""SL247."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.shardings import literal_leaves
from shardlint.model.signatures import JITS
from shardlint.model.values import CallArguments, CallResult, Items, Transformed, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Methods, Rule, detector
from shardlint.rules_api.site import Site

_STRUCT = "jax.ShapeDtypeStruct"
_SIGNATURE = ("shape", "dtype")


class LoweredWithoutSharding(Rule):
    """A function is lowered with a sharding for one argument and no sharding for another.

    Calling the compiled function raises ValueError if the array has another sharding than the compiler chose. For an
    argument without a sharding the compiler chooses one that fits another argument of the same operation, or replicates
    the argument.

    ## Reports
    - `unsharded-argument` (likely): `jitted.lower(...)` with a `jax.ShapeDtypeStruct(shape, dtype)` without
      `sharding=`, if another argument has one. The jit has no `in_shardings`.

    ## Write instead
    Write `jax.ShapeDtypeStruct(shape, dtype, sharding=batch_sharding)`, or pass `in_shardings` for all arguments.

    ## Limits
    Scalars are not reported.
    """

    code = "SL247"
    name = "lowered-without-sharding"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("unsharded-argument",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "unsharded-argument": "The sharding of the passed array differs from the choice of the compiler."
    }
    triggers = (Methods("lower"),)
    project_says = ("ShapeDtypeStruct",)
    in_tests = False
    fixes = "none"

    @detector("method", finds="unsharded-argument")
    def find_arguments(self, site: Site) -> Iterator[Finding]:
        """Arguments of `lower` without a sharding."""
        passed = [*site.call.args, *(one.value for one in site.call.keywords if one.arg is not None)]
        if (
            not passed[1:]
            or any(isinstance(one, ast.Starred) for one in passed)
            or not _has_no_in_shardings(site)
        ):
            return
        arguments = [(node, _array_structs(site, node)) for node in passed]
        if not any(structs and all(map(_has_sharding, structs)) for _, structs in arguments):
            return
        for node, structs in arguments:
            if not structs or any(_has_sharding(one) or _is_scalar(site, one) for one in structs):
                continue
            place = structs[0].place
            yield site.finding(
                place.node if place.file is site.file else node,
                f"A call with a sharded `{site.shown(node)}` can raise ValueError: "
                "the argument was lowered without a sharding.",
                label="no sharding",
                help="add `sharding=` with the sharding of the array that you pass to the compiled function",
                why=f"line {site.call.lineno} lowers the function with shardings for other arguments",
            )


def _has_no_in_shardings(site: Site) -> bool:
    """True if the lowered function is a jit without `in_shardings`."""
    function = site.call.func
    if not isinstance(function, ast.Attribute):
        return False
    functions = options(site.value(function.value))
    return bool(functions) and all(
        isinstance(one, Transformed)
        and one.api.name in JITS
        and (one.call is None or not (one.call.may_have_argument("in_shardings", ()) or one.call.open_keywords))
        for one in functions
    )


def _array_structs(site: Site, node: ast.expr) -> list[CallArguments]:
    """The `ShapeDtypeStruct` calls that are the leaves of an argument; empty if it has other leaves."""
    parts = literal_leaves(site.program.evaluator.trees.expand_tree_map(site.value(node)))
    structs = [one.call for one in parts if isinstance(one, CallResult) and one.api == _STRUCT]
    calls = [one for one in structs if one is not None]
    return calls if len(calls) == len(parts) else []


def _has_sharding(struct: CallArguments) -> bool:
    """True if a struct has a sharding, or may have one."""
    return struct.open_keywords or "sharding" in struct.keywords


def _is_scalar(site: Site, struct: CallArguments) -> bool:
    shape = struct.argument_for("shape", _SIGNATURE)
    value = site.program.evaluator.value(shape, struct.environment) if shape is not None else None
    return isinstance(value, Items) and not value.items and not value.open
