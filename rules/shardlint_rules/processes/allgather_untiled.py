"""SL812."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.values import Api, Place
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings
from shardlint_rules.processes.sharded_arrays import is_made_of_sharded_array, is_surely_sharded_array
from shardlint_rules.processes.single_process_code import is_reached_with_one_process

_GATHER = "jax.experimental.multihost_utils.process_allgather"
_ARRAYS = ("jax.Array", "jax.numpy.ndarray", "jaxtyping.Array")


class AllgatherUntiled(Rule):
    """`process_allgather` of a global array lacks `tiled=True`.

    From jax 0.8 this raises `ValueError: Gathering global non-fully-addressable arrays only supports tiled=True` with
    several processes. With one process the result has an extra leading axis of size one.

    ## Reports
    - proven: `process_allgather(x)` of an array that is placed by a NamedSharding, comes from a jitted function with
      `out_shardings`, or is gathered under `if not x.is_fully_addressable:`.
    - `annotated` (likely): `process_allgather(x)` of a parameter with the type hint `jax.Array`.

    ## Fix
    Adds `tiled=True`. Unsafe: with one process the leading axis goes away.

    ## Limits
    Not reported: host data, which `process_allgather` stacks along a new axis without `tiled=True`.
    """

    code = "SL812"
    name = "allgather-untiled"
    harm = Harm.CRASH
    likely = ("annotated",)
    triggers = (Calls(_GATHER),)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8"}
    fixes = "unsafe"
    closed = ("keywords",)

    @detector("call")
    def report_gather(self, site: Site) -> Finding | None:
        """A gather of a global array without `tiled=True`."""
        tiled = site.argument("tiled") or (site.call.args[1] if len(site.call.args) > 1 else None)
        if tiled is not None and not (isinstance(tiled, ast.Constant) and tiled.value is False):
            return None
        given = site.call.args[0] if site.call.args else None
        if given is None or is_reached_with_one_process(site.program, Place(site.file, site.call)):
            return None
        why = (
            is_surely_sharded_array(site, given)
            or is_made_of_sharded_array(site, given)
            or _test_for_global_array(site, given)
        )
        if not why and not _is_annotated_as_array(site, given):
            return None
        name = site.shown(given)
        return site.finding(
            site.call,
            f"With several processes this raises ValueError: `{name}` is a global array, which needs `tiled=True`."
            if why
            else f"With several processes this raises ValueError if `{name}` is global: `tiled=True` is missing.",
            help="write `process_allgather(..., tiled=True)`",
            fix=self._write_fix(site, tiled),
            form="" if why else "annotated",
            why="" if why else f"`{name}` is annotated as a jax.Array",
        )

    def _write_fix(self, site: Site, tiled: ast.expr | None) -> Fix | None:
        if tiled is not None:
            edits = [site.replace(tiled, "True")]
        else:
            last = site.call.keywords[-1].value if site.call.keywords else site.call.args[-1]
            end = site.file.character_span(last)[1]
            edits = [Edit(end, end, ", tiled=True")]
        return site.fix(
            Safety.UNSAFE, "write tiled=True", edits, why="with one process the result has one axis less"
        )


def _test_for_global_array(site: Site, expression: ast.expr) -> str:
    """The test by which an array is known to lie on devices of other processes: `if not x.is_fully_addressable:`."""
    asked = f"{site.text(expression)}.is_fully_addressable"
    inner: ast.AST = site.call
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.If):
            test, body = outer.test, inner in outer.body
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and body:
                if site.text(test.operand) == asked:
                    return asked
            if site.text(test) == asked and inner in outer.orelse:
                return asked
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            break
        inner = outer
    return ""


def _is_annotated_as_array(site: Site, node: ast.expr, depth: int = 0) -> bool:
    """Return whether it is a parameter that says it is an array of jax's, or made of one by `astype`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
        return _is_annotated_as_array(site, node.func.value, depth)
    if not isinstance(node, ast.Name) or depth > 2:
        return False
    bindings, _ = lookup_bindings(site.file, node, node.id)
    made = [one.value for one in bindings if one.kind == "assign" and one.value is not None]
    if bindings and made:
        rest = [one for one in bindings if one.kind != "assign"]
        return all(_is_annotated_as_array(site, one, depth + 1) for one in made) and len(rest) <= 1
    if len(bindings) != 1 or bindings[0].kind != "param" or bindings[0].annotation is None:
        return False
    annotation = bindings[0].annotation
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.split("[")[0] in ("jax.Array", "jnp.ndarray")
    kinds = [site.value(annotation), *annotated_classes(site.program.evaluator, Place(site.file, annotation))]
    return any(isinstance(one, Api) and one.name in _ARRAYS for one in kinds)
