"""SL653."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.libraries.einshard import Fault
from shardlint.model.values import CallResult, options
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.einshard.calls import SHARD, written_call

_CONSTRAINT = "jax.lax.with_sharding_constraint"
_MAKE = "einshard.make_sharding"
_DEPTH = 4


class EinshardInJit(Rule):
    """`einshard` raises in traced code, because it reads the values of the array.

    ## Reports
    - proven: `einshard(x, expression)` in code that jit, scan, shard_map or another transform traces, also through
      calls in other files.

    ## Fix
    Writes `with_sharding_constraint` with `make_sharding(expression)`. Unsafe: the constraint changes the compiled
    program, and its mesh is the one that `make_sharding` creates.

    ## Limits
    Not reported: `einshard` of a NumPy array, which works in traced code.
    """

    code = "SL653"
    name = "einshard-in-jit"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"einshard": ">=0.2"}
    triggers = (Calls(SHARD),)
    where = "traced"
    in_version_checks = False
    fixes = "unsafe"

    @detector("call")
    def report_call(self, site: Site) -> Finding | None:
        """A call in traced code."""
        array = site.argument("arr")
        if array is None or _may_be_numpy(site, array):
            return None
        sure = site.region.is_proven and _is_jax_array(site, array)
        return site.finding(
            site.call.func,
            f"`einshard` raises UnexpectedTracerError here: it reads `{' '.join(site.text(array).split())}`, a tracer.",
            via=site.region,
            why=f"checked for {site.release('jax')}",
            help="write `jax.lax.with_sharding_constraint(x, make_sharding(expression))`, "
            "or call `einshard` before the traced call",
            fix=self._write_fix(site, array),
            certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
        )

    def _write_fix(self, site: Site, array: ast.expr) -> Fix | None:
        expression = site.argument("expression")
        given = written_call(site)
        known = given is not None and not isinstance(given.parsed, Fault)
        if expression is None or not known or "#" in site.text():
            return None
        assert given is not None and not isinstance(given.parsed, Fault)
        text = site.text(array)
        rank = ""
        if given.parsed.has_ellipsis:
            if not isinstance(array, ast.Name | ast.Attribute):
                return None
            rank = f", n_dims={text}.ndim"
        constrain, imports = site.spell(_CONSTRAINT)
        make, more = site.spell(_MAKE)
        written_ = f"{constrain}({text}, {make}({site.text(expression)}{rank}))"
        edits: list[Edit] = [site.replace(site.call, written_), *imports, *more]
        drops = (site.call.func.id,) if isinstance(site.call.func, ast.Name) else ()
        return site.fix(
            Safety.UNSAFE,
            f"write {' '.join(written_.split())}",
            edits,
            "the new constraint shards the array",
            drops,
        )


def _may_be_numpy(site: Site, array: ast.expr) -> bool:
    """Return whether the array may be a NumPy array, which einshard can read in a trace too."""
    return any(
        isinstance(option, CallResult) and option.api.startswith("numpy.")
        for option in options(site.value(array))
    )


def _is_jax_array(site: Site, array: ast.expr) -> bool:
    """Return whether the array is surely one of jax: made by it, or from the arguments of the traced function."""
    if any(
        isinstance(option, CallResult) and option.api.startswith("jax.")
        for option in options(site.value(array))
    ):
        return True
    function = site.scope.enclosing_function()
    return function is not None and _depends_on_parameters(site, function, array, _DEPTH)


def _depends_on_parameters(site: Site, function: Scope, node: ast.AST, depth: int) -> bool:
    """Return whether an expression depends on parameters of the function."""
    for part in walk_nodes(node):
        if not isinstance(part, ast.Name):
            continue
        for binding in site.file.bindings(function, part.id):
            if binding.kind == "param":
                return True
            if (
                depth
                and binding.value is not None
                and _depends_on_parameters(site, function, binding.value, depth - 1)
            ):
                return True
    return False
