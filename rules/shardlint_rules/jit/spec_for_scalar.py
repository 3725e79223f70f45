"""SL229."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.trees import MAPS
from shardlint.model.mesh.meshes import Spec
from shardlint.model.values import Items, Leaves, Place, Table, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.jit._scalar_leaves import find_scalar_leaf

_ARGUMENTS = {
    "jax.device_put": ("x", "device"),
    "jax.lax.with_sharding_constraint": ("x", "shardings"),
    "equinox.filter_shard": ("x", "device_or_shardings"),
}
_HELP = "use `PartitionSpec()` for scalars: choose by `leaf.ndim`"
_WHY = "and a spec with an axis needs rank 1"
# Code that reads one of these handles scalars.
_RANK = ("ndim", "shape", "size", "isscalar", "is_scalar", "rank")


class SpecForScalar(Rule):
    """A spec with a mesh axis is applied to every leaf of a tree, and one leaf is a scalar.

    jax raises `ValueError: ... is only valid for values of rank at least 1`. The step count of an optimizer is such a
    scalar: `optax.adam` has one, `optax.sgd` does not.

    ## Reports
    - proven: `device_put`, `with_sharding_constraint` or `eqx.filter_shard` of a tree with a scalar leaf and one
      sharding that names an axis. Also in `tree.map`. Also for a parameter, if a call in the project passes such a
      tree.
    - proven: `out_shardings` of a jit with one sharding that names an axis, if a result has a scalar leaf.

    ## Write instead
    Write `PartitionSpec()` for scalars: choose the spec by `leaf.ndim`.

    ## Limits
    Not reported if the code reads the rank or shape of the leaf.
    """

    code = "SL229"
    name = "spec-for-scalar"
    harm = Harm.CRASH
    assumes = True
    triggers = (
        Calls(*_ARGUMENTS),
        Violates("spec.rank"),
    )
    fixes = "none"

    @detector("call")
    def find_scalar(self, site: Site) -> Finding | None:
        """The first scalar in the trees of a call."""
        array, sharding = (site.argument(name) for name in _ARGUMENTS[site.api])
        if array is None or sharding is None or not _names_an_axis(site, sharding):
            return None
        for tree in _placed_trees(site, array):
            scalar = find_scalar_leaf(site, tree)
            if scalar is not None:
                text = " ".join(tree.source_text().split())
                return site.finding(
                    sharding,
                    f"This spec raises ValueError: `{text}` contains a scalar.",
                    label="one spec for arrays and scalars",
                    help=_HELP,
                    why=f"{scalar}, {_WHY}",
                )
        return None

    @detector("violation")
    def report_scalar(self, site: Site) -> Finding | None:
        """A scalar that is a leaf of a tree with one spec."""
        said = site.violation.said
        if said["rank"] != "0" or not said["array"]:  # of what is no leaf of a tree SL303 tells
            return None
        return site.report_violation(
            f"This spec raises ValueError: leaf `{said['array']}` is a scalar.",
            help=_HELP,
            why=f"one spec applies to all leaves, {_WHY}",
        )


def _names_an_axis(site: Site, sharding: ast.expr) -> bool:
    """True if an argument is one sharding for all leaves, with an entry that names an axis or may."""
    values = options(site.value(sharding))
    if len(values) != 1 or isinstance(values[0], Items | Table | Leaves):
        return False
    parts = site.sharding_parts(values[0])
    second = options(parts[1]) if parts is not None else values
    spec = site.spec_of(second[0]) if len(second) == 1 else None
    return spec is not None and not spec.open and _has_axis(spec)


def _has_axis(spec: Spec) -> bool:
    """SL303 speaks of specs that are replicated but longer than the array."""
    return any(not entry.known or entry.axes for entry in spec.entries)


def _placed_trees(site: Site, array: ast.expr) -> list[Place]:
    """The trees that the call places, or whose leaves it places."""
    function = site.scope.enclosing_function()
    if not isinstance(array, ast.Name):
        return [Place(site.file, array)]
    bindings, _ = lookup_bindings(site.file, array, array.id)
    if len(bindings) != 1:
        return []
    origin = bindings[0]
    if origin.kind in ("for", "comprehension"):
        return []
    if origin.kind != "param" or function is None or origin.scope is not function:
        return [Place(site.file, array)]
    if _reads_ranks(site, function):
        return []
    mapped = list(_trees_mapped_over(site, function, origin.name))
    return mapped or ([Place(site.file, array)] if function.kind == "function" else [])


def _trees_mapped_over(site: Site, function: Scope, name: str) -> Iterator[Place]:
    """The trees that a function is mapped over, for one of its parameters."""
    args = function.node.args if isinstance(function.node, ast.Lambda | ast.FunctionDef) else None
    names = [one.arg for one in (*args.posonlyargs, *args.args)] if args is not None else []
    if name not in names:
        return
    for end in site.program.flow.ends(site.file, function.node).found:
        if end.kind == "called" and any(wrapper.api in MAPS for wrapper in end.wrappers):
            trees = site.program.evaluator.read_arguments(end.place).positional[1:]
            index = names.index(name) - len(MAPS.get(end.wrappers[-1].api, ()))
            yield from trees[index : index + 1] if index >= 0 else ()


def _reads_ranks(site: Site, function: Scope) -> bool:
    """True if a function reads the rank or shape of an array."""
    return site.file.remember_for_node("reads ranks", function.node, lambda: _mentions_rank(function.node))


def _mentions_rank(node: ast.AST) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in _RANK)
        or (isinstance(part, ast.Name) and part.id in _RANK)
        for part in walk_nodes(node)
    )
