"""SL316."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import ClassVar

from shardlint.facts.made_meshes import NamedMesh, shared_named_meshes
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax.nodes import walk_nodes

_NAMED = compile_lazily(r"(\w*(?:sharding|spec))\s*(?::[^=\n]*)?=\s*\(")
_NEAR = r"(?:sharding|spec)\s*(?::[^=\n]*)?=\s*\(|\.shape\[[\"']"


class AxisOfSomeMeshes(Rule):
    """Code names a mesh axis that only some of the project's meshes have.

    With a mesh that lacks the axis `mesh.shape["expert"]` raises `KeyError`, and a sharding that names the axis raises
    `ValueError: Resource axis: expert is not found in mesh`.

    ## Reports
    - `shape` (likely): `mesh.shape["expert"]` without a test for the axis, if a file of the project makes a mesh with
      this axis and a mesh without it.
    - `named` (likely): an axis that some meshes lack, in a tuple for a keyword or field whose name ends in `sharding`
      or `spec`: `kernel_sharding=("expert", None)`.

    ## Write instead
    Write `mesh.shape.get("expert", 1)`. In a spec, name the axis only if the mesh has it:
    `"expert" if "expert" in mesh.axis_names else None`.

    ## Limits
    Not reported: functions that test for the axis, functions whose name contains the axis name, axis names from
    constants, and meshes of tests.
    """

    code = "SL316"
    name = "axis-of-some-meshes"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("shape", "named")
    assumptions: ClassVar[Mapping[str, str]] = dict.fromkeys(likely, "The code runs with each of the meshes.")
    triggers = (Lines(r"(?:import|from)\s+\w+", file_says=_NEAR, saying=("import",)),)
    fixes = "none"

    @detector("line")
    def find_axes(self, site: Site) -> Iterator[Finding]:
        """The axes of all specs of a file: asked once, at its first import."""
        imports = (one for one in site.file.tree.body if isinstance(one, ast.Import | ast.ImportFrom))
        if site.syntax is not next(imports, None):
            return
        found = list(_written_axes(site))
        if not found:
            return
        missing = _optional_axes(shared_named_meshes(site.program, site.file))
        for node, axis, form in found:
            if axis in missing and not _tests_for_axis(site, node, axis):
                yield self._make_finding(site, node, axis, form, *missing[axis])

    def _make_finding(
        self, site: Site, node: ast.AST, axis: str, form: str, large: NamedMesh, small: NamedMesh
    ) -> Finding:
        raises = "This raises KeyError" if form == "shape" else "A sharding with this spec raises ValueError"
        return site.finding(
            node,
            f'{raises} with the mesh at {small.path.name}:{small.line}: this mesh has no axis "{axis}".',
            label=f'"{axis}" is missing in some meshes',
            help=f'write `mesh.shape.get("{axis}", 1)`'
            if form == "shape"
            else f'write `"{axis}" if "{axis}" in mesh.axis_names else None`',
            form=form,
            why=f"the mesh at {large.path.name}:{large.line} has the axis, the other mesh has only "
            f"{', '.join(small.axes)}",
        )


def _optional_axes(meshes: tuple[NamedMesh, ...]) -> dict[str, tuple[NamedMesh, NamedMesh]]:
    """The axes that a mesh has and another one, with some of its axes and no others, has not."""
    found: dict[str, tuple[NamedMesh, NamedMesh]] = {}
    for large, small in permutations(meshes, 2):
        if large.path == small.path and len(small.axes) > 1 and set(small.axes) < set(large.axes):
            for axis in set(large.axes) - set(small.axes):
                found.setdefault(axis, (large, small))
    return found


def _written_axes(site: Site) -> Iterator[tuple[ast.AST, str, str]]:
    """The axes that are written out, each with its place and form."""
    file = site.file
    for node in file.find_mentions("shape") if file.contains_text(".shape[") else ():
        match file.parent(node), node:
            case (
                ast.Subscript(slice=ast.Constant(value=str() as axis)) as read,
                ast.Attribute(value=mesh),
            ) if read.value is node and "mesh" in site.text(mesh).lower():
                yield read, axis, "shape"
    for name in sorted({found[1] for found in _NAMED.finditer(file.source.text)}):
        for node in file.find_mentions(name):
            match node, file.parent(node):
                case (ast.keyword(value=ast.Tuple() as value), _):
                    yield from _list_axes(value)
                case (ast.Name(), ast.AnnAssign(target=target, value=ast.Tuple() as value)) if target is node:
                    yield from _list_axes(value)


def _list_axes(value: ast.Tuple) -> Iterator[tuple[ast.AST, str, str]]:
    """The axes of a tuple that is a spec by what it is called."""
    for part in walk_nodes(value):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part, part.value, "named"


def _tests_for_axis(site: Site, node: ast.AST, axis: str) -> bool:
    """Return whether the function around a place tests for the axis anywhere, or is named after it."""
    scope = site.file.evaluation_scope(node).enclosing_function()
    if scope is not None and axis in scope.name.lower().split("_"):
        return True  # it is for those that have the axis
    inside = scope.node if scope is not None else site.file.tree
    for part in walk_nodes(inside):
        if isinstance(part, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in part.ops):
            if any(isinstance(one, ast.Constant) and one.value == axis for one in walk_nodes(part)):
                return True
        if (
            isinstance(part, ast.ExceptHandler)
            and part.type is not None
            and "KeyError" in site.text(part.type)
        ):
            return True
    return False
