"""SL207."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.placements import is_inside_placing_call, is_placed_later, placed_by_callers
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.jit.fresh_results import SHAPED
from shardlint_rules.jit.mapped_leaves import array_values, may_be_sharded_array, trees_mapped_over

# The shape itself, not a size of it: `x.shape[0]` is in many more files.
_WHOLE = (".shape)", ".shape,", ".shape\n")
_CALLED = tuple(rf"(?:){name.rpartition('.')[2]}\((?:[^()]|\([^()]*\))*\.shape\s*[,)]" for name in SHAPED)
_WHERE = ("device", "out_sharding", "sharding")


class ShardingLostByShape(Rule):
    """An array created from the shape of a sharded array is not sharded.

    The new array is on the first device: a shape has no sharding. Under `jax.set_mesh` it is replicated. Accumulators
    and moments created this way need the memory of the full array on one device.

    ## Reports
    - proven: `jnp.zeros(x.shape)`, `ones`, `empty` or `full` outside of jit, if the code proves that `x` is sharded.
      Also per leaf: `jax.tree.map(lambda p: jnp.zeros(p.shape, p.dtype), params)`.
    - `sharded-parameter` (likely): `jnp.zeros(x.shape)` or a similar function, if callers pass `x` with a sharding that
      may shard it. Also for parameters of an NNX module whose variables name axes, if the program sets a mesh.

    ## Write instead
    Write `jnp.zeros_like(x)`, `ones_like`, `empty_like` or `full_like`: they keep the sharding of `x`.

    ## Fix
    Writes the `_like` function. Safe: values and dtype stay the same.

    ## Limits
    Not reported: traced code, and arrays that are placed, created with `device=`, compared or printed.
    """

    code = "SL207"
    name = "sharding-lost-by-shape"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    assumes = True
    likely = ("sharded-parameter",)
    assumptions: ClassVar[Mapping[str, str]] = {"sharded-parameter": "The sharding that callers pass shards the array."}
    triggers = (Calls(*SHAPED, file_says=_CALLED, function_says=_WHOLE),)
    closed = ("positional", "keywords")
    where = "host"
    fixes = "safe"

    @detector("call")
    def report_shape(self, site: Site) -> Finding | None:
        """An array made with the shape of a sharded one."""
        array = _find_array(site)
        if array is None or not _is_sharded(site, array) or _is_placed(site, array):
            return None
        return _make_finding(site, array, self._write_fix(site, site.shown(array)))

    @detector("call", finds="sharded-parameter")
    def report_shape_of_parameter(self, site: Site) -> Finding | None:
        """An array made with the shape of one that may be sharded."""
        array = _find_array(site)
        if array is None or not _seems_sharded(site, array) or _is_placed(site, array) or placed_by_callers(site):
            return None
        return _make_finding(site, array, None, f"the sharding of `{site.shown(array)}` may shard it")

    def _write_fix(self, site: Site, array: str) -> Fix | None:
        maker = site.short_name
        names = ("shape", "fill_value", "dtype") if maker == "full" else ("shape", "dtype")
        dtype = site.arguments.argument_for("dtype", names)
        parts = [array]
        if maker == "full":
            value = site.arguments.argument_for("fill_value", names)
            if value is None or dtype is None:
                return None  # full takes the type of its value, and full_like that of the array
            parts.append(value.source_text())
        written = " ".join(dtype.source_text().split()) if dtype is not None else "float"
        if written != f"{array}.dtype":
            parts.append(f"dtype={written}")
        function, imports = self._write_like_function(site, maker)
        text = f"{function}({', '.join(parts)})"
        edits: list[Edit] = [site.replace(site.call, text), *imports]
        drops = [site.call.func.id] if isinstance(site.call.func, ast.Name) else []
        return site.fix(Safety.SAFE, f"write: {text}", edits, drops=drops)

    def _write_like_function(self, site: Site, maker: str) -> tuple[str, tuple[Edit, ...]]:
        if isinstance(site.call.func, ast.Attribute):
            return f"{site.text(site.call.func)}_like", ()
        return site.spell(f"jax.numpy.{maker}_like")


def _make_finding(site: Site, array: ast.expr, fix: Fix | None, why: str = "") -> Finding:
    """The finding of an array made with the shape of another."""
    text = site.shown(array)
    return site.finding(
        site.call,
        f"The new array is on one device, while `{text}` is sharded: a shape has no sharding.",
        help=f"write {site.short_name}_like({text}): it keeps the sharding",
        fix=fix,
        why=why,
    )


def _find_array(site: Site) -> ast.expr | None:
    """The array whose shape the new one gets, if the new one gets no sharding."""
    shape = site.arguments.argument_for("shape", ("shape",))
    node = shape.node if shape is not None else None
    if not isinstance(node, ast.Attribute) or node.attr != "shape":
        return None
    return None if any(name in site.arguments.keywords for name in _WHERE) else node.value


def _is_placed(site: Site, array: ast.expr) -> bool:
    whole = _find_mapping(site, array)
    return (
        is_inside_placing_call(site, site.call)
        or is_inside_placing_call(site, whole)
        or is_placed_later(site, whole)
    )


def _is_sharded(site: Site, node: ast.expr) -> bool:
    """True if the array surely is sharded, by itself or as a leaf of a mapped tree."""
    if site.shardings.spread(site.value(node)):
        return True
    return any(
        site.shardings.spread(site.program.value(place.file, place.node))
        for place, _ in trees_mapped_over(site, node)
    )


def _seems_sharded(site: Site, node: ast.expr) -> bool:
    return any(may_be_sharded_array(site, value) for value in array_values(site, node))


def _find_mapping(site: Site, node: ast.expr) -> ast.AST:
    """The `tree.map` whose lambda returns the array; or the call itself."""
    for _, call in trees_mapped_over(site, node):
        function = call.args[0]
        if isinstance(function, ast.Lambda) and function.body is site.call:
            return call
    return site.call
