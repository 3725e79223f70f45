"""SL606."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Function, Table, Transformed, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes

_JIT = "haliax.named_jit"
_COMPUTE = compile_lazily(r"(?i)compute|activation")
_PARAMETERS = ("parameter", "param", "params", "parameters", "weight", "weights")
_WEIGHTS = compile_lazily(r"(?i)(^|_)(model|params?|weights|opt|opt_?state|optim_?state|state|train_?state)$")


class WeightsInComputeMapping(Rule):
    """FSDP weights become replicated: `named_jit` shards the weights that it returns by the compute mapping.

    Without `out_axis_resources`, `named_jit` shards its results by `axis_resources`. A compute mapping shards the batch
    axis. It does not name the axes of the weights that FSDP shards.

    ## Reports
    - `parameter-mapping-exists` (likely): `hax.named_jit(..., axis_resources=compute_mapping)` without
      `out_axis_resources`. The function returns a model that it initializes or updates, and the program has a
      `parameter_mapping` next to `compute_mapping`.

    ## Write instead
    Write `axis_resources=parameter_mapping` in the `named_jit` of an initialization. Write
    `out_axis_resources=parameter_mapping` in the `named_jit` of a training step.

    ## Limits
    Not reported: functions that call a `shard` function. Also not reported: two mappings that are equal.
    """

    code = "SL606"
    name = "weights-in-compute-mapping"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("parameter-mapping-exists",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "parameter-mapping-exists": "The mapping with `parameter` in its name is the mapping of the weights."
    }
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    triggers = (Calls(_JIT, file_says=("axis_resources", "ompute", "OMPUTE")),)
    in_tests = False
    fixes = "none"

    @detector("call", "partial", finds="parameter-mapping-exists")
    def report_mapping(self, site: Site) -> Finding | None:
        """The compute mapping of a function that returns weights."""
        given = {one.arg: one.value for one in site.call.keywords}
        mapping = given.get("axis_resources", site.argument("axis_resources"))
        if mapping is None or None in given or "out_axis_resources" in given:
            return None
        name = last_name(mapping)
        if not _COMPUTE.search(name):
            return None
        function = self._find_function(site)
        beside = _parameter_mapping_named(site, name)
        if function is None or beside is None or _are_equal_mappings(site, mapping, beside):
            return None
        kept = _returns_weights(function)
        if kept is None or "shard(" in function.place.source_text():
            return None
        right = site.text(mapping).replace(name, beside)
        return site.finding(
            mapping,
            f"Sharded axes of `{kept}` become replicated: `named_jit` shards its result by the compute mapping.",
            help=f"write `out_axis_resources={right}`, or `axis_resources={right}` for an initialization",
            why=f"without out_axis_resources, {site.release('haliax')} shards results by `{name}`; the program has "
            f"`{beside}` for parameters",
        )

    def _find_function(self, site: Site) -> Function | None:
        if site.decorated is not None:
            found = site.program.evaluator.definition_value(site.file, site.decorated)
        elif site.call.args:
            value = options(site.value(site.call.args[0]))[0]
            while isinstance(value, Transformed):
                value = value.inner
            return value if isinstance(value, Function) else None
        else:
            return None
        return found if isinstance(found, Function) else None


def _parameter_mapping_named(site: Site, name: str) -> str | None:
    """The mapping for parameters that goes by the same name."""
    for word in _PARAMETERS:
        for old, new in (("compute", word), ("COMPUTE", word.upper()), ("Compute", word.capitalize())):
            if old in name:
                other = name.replace(old, new)
                if site.is_named_anywhere(other):
                    return other
    return None


def _are_equal_mappings(site: Site, mapping: ast.expr, beside: str) -> bool:
    """Return whether both are known and equal."""
    if not isinstance(mapping, ast.Name):
        return False
    mine = site.value(mapping)
    bound = site.file.bindings(site.file.module, beside)
    theirs = site.value(bound[0].value) if len(bound) == 1 and bound[0].value is not None else None
    return isinstance(mine, Table) and mine == theirs


def _returns_weights(function: Function) -> str | None:
    """Return the description of a model or optimizer state that a function makes or updates and returns; None without
    one.
    """
    node = function.node
    makes = any(
        isinstance(one, ast.Call) and last_name(one.func) in ("init", "apply_updates", "update")
        for one in walk_nodes(node)
    )
    if not makes:
        return None
    body = node.body
    results = (
        [one.value for one in walk_nodes(node) if isinstance(one, ast.Return) and one.value is not None]
        if isinstance(body, list)
        else [body]
    )
    for result in results:
        for part in result.elts if isinstance(result, ast.Tuple) else [result]:
            named = last_name(part) if isinstance(part, ast.Name | ast.Attribute) else ""
            if named and _WEIGHTS.search(named):
                return named
            if isinstance(part, ast.Call) and last_name(part.func) in ("init", "apply_updates"):
                return "the model" if last_name(part.func) == "apply_updates" else ast.unparse(part.func)
    return None
