"""SL508."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Edit, Finding, Fix, Harm, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.flax.annotations import is_switched


class ValueAssignmentDropsSharding(Rule):
    """A sharded NNX variable loses its sharding: a new array is assigned to it.

    The variable then holds the new array as it is: on one device, or replicated under `jax.set_mesh`. A numpy array
    stays on the host and is transferred at each call. The annotation is kept but has no effect. Nothing is raised.

    ## Reports
    - proven: `variable.value = x`, `variable.set_value(x)` or `nnx.update(model, x)` with a newly created array or a
      numpy array, if flax sharded the variable. Before flax 0.12.1 also `variable[...] = x`.

    ## Write instead
    From flax 0.12.4 `variable[...] = x` writes into the existing array, with its dtype and sharding. On older releases
    place the new array: `kernel.value = jax.device_put(x, kernel.value.sharding)`. For `nnx.update` place the arrays of
    `x` first.

    ## Fix
    From flax 0.12.4 writes `[...]`. Unsafe: the variable keeps its old dtype. On older releases places the new array,
    which is safe.

    ## Limits
    Not reported: traced code, new arrays that are placed or computed from the old value, and projects that turn
    `flax_always_shard_variable` off.
    """

    code = "SL508"
    name = "value-assignment-drops-sharding"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.12"}
    triggers = (Violates("variable.whole"),)
    in_version_checks = False
    fixes = "both"

    @detector("violation")
    def report_assignment(self, site: Site) -> Finding | None:
        """An assignment, or an update."""
        if is_switched(site):
            return None
        written, where = site.syntax, site.violation.said["where"]
        array: ast.expr | None = None
        match written:
            case ast.Attribute(value=variable) | ast.Subscript(value=variable):
                statement = site.file.statement(written)
                array = statement.value if isinstance(statement, ast.Assign) else None
            case ast.Call(func=ast.Attribute(value=variable, attr="set_value"), args=[array]):
                pass
            case ast.Call(args=[variable, *_]):
                pass
            case _:
                return None
        name = site.text(variable)
        placed = "place the array first with `jax.device_put`"
        if array is not None:
            placed = f"write `jax.device_put(x, {name}.value.sharding)`, where x is the new array"
        writes_into = array is not None and site.allows("flax", ">=0.12.4")
        return site.report_violation(
            f"`{name}` loses its sharding: the new array is {where}.",
            help=f"write `{name}[...] = x` or `jax.device_put(x, {name}[...].sharding)`, where x is the new array"
            if writes_into
            else placed,
            fix=_write_fix(site, name, array, written) if array is not None else None,
        )


def _write_fix(site: Site, name: str, array: ast.expr, written: ast.AST) -> Fix:
    if site.allows("flax", ">=0.12.4"):
        whole = f" = {site.text(array)}" if isinstance(written, ast.Call) else ""
        edits = [site.replace(written, f"{name}[...]{whole}")]
        return site.fix(Safety.UNSAFE, f"write {name}[...] = ...", edits, "it keeps the old array's dtype")
    put, imports = site.spell("jax.device_put")
    start, end = site.file.character_span(array)
    placed = [Edit(start, start, f"{put}("), Edit(end, end, f", {name}.value.sharding)")]
    return site.fix(Safety.SAFE, f"write {put}(..., {name}.value.sharding)", [*placed, *imports])
