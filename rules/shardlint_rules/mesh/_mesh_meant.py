"""The mesh that a bare spec at a place means: that of the class, of the function, of the context; else the only one."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.mesh.meshes import Spec
from shardlint.model.signatures import takes_self
from shardlint.model.values import CallResult, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import is_static
from shardlint_rules.mesh._mesh_of_object import (
    class_around,
    is_mesh,
    is_mesh_type,
    mesh_attributes,
    meshes_of_parameter,
    read_through,
)

_MAKERS = {"Mesh": "jax.sharding.Mesh", "make_mesh": "jax.make_mesh"}
NO_MESH = "no single name for a mesh is in scope"


@dataclass(frozen=True)
class MeshExpression:
    """How the mesh is written; or why none is."""

    name: str | None
    why: str = ""


def choose_meant_mesh(site: Site, specs: Sequence[Spec], entered: Sequence[MeshContext] = ()) -> MeshExpression:
    """The mesh that `specs` mean at a site, of which `entered` are the mesh contexts around its calls.

    What is nearest counts: a parameter or variable of the function, then the mesh that the object keeps, then one
    that a parameter brings along, then one of the module. It must be the mesh that is entered, where one is. Of
    several it is the one that has the axes of the specs, where the text shows that no other has.
    """
    local = _mesh_names_in_scopes(
        site, [scope for scope in site.scope.enclosing_scopes() if scope.kind in ("function", "lambda")]
    )
    local = _meshes_with_axes(site, local, specs)
    if local:
        name = "mesh" if "mesh" in local else local[0] if len(local) == 1 else None
        return _check_mesh_contexts(site, name, entered, _format_alternatives(local))
    of_object, brought = _mesh_of_object(site), _meshes_from_parameters(site)
    if of_object is not None and (of_object.name is not None or not brought):
        return of_object
    if brought:
        return MeshExpression(brought[0]) if len(brought) == 1 else MeshExpression(None, _format_alternatives(brought))
    found = _mesh_names_in_scopes(site, [scope for scope in site.scope.enclosing_scopes() if scope.kind == "module"])
    found = _meshes_with_axes(site, found, specs)
    if (
        len(found) == 1
        and not _are_contexts_mesh(site, found[0], entered)
        and (line := _other_mesh_made(site, found[0], specs))
    ):
        return MeshExpression(None, f"{line} creates a mesh that may differ from `{found[0]}` of the module")
    name = found[0] if len(found) == 1 else None
    return _check_mesh_contexts(site, name, entered, _format_alternatives(found) if found else NO_MESH)


def _meshes_with_axes(site: Site, names: list[str], specs: Sequence[Spec]) -> list[str]:
    """Those of several meshes that may have the axes of the specs."""
    asked = _axes_of_specs(specs)
    if len(names) < 2 or not asked:
        return names
    return [name for name in names if not (axes := _possible_axes(site, name)) or asked <= axes] or names


def _axes_of_specs(specs: Sequence[Spec]) -> set[str]:
    return {axis for spec in specs for entry in spec.entries for axis in entry.axes}


def _possible_axes(site: Site, name: str) -> set[str]:
    """All axes that a mesh may have, by name; empty where the text does not tell them."""
    bindings, _ = lookup_bindings(site.file, site.syntax, name)
    values = [site.program.evaluator.evaluate_binding(site.file, binding) for binding in bindings]
    meshes = [site.mesh_of(one) for value in values for one in options(site.program.followed(value))]
    known = [mesh.axis_names for mesh in meshes if mesh is not None and mesh.axis_names is not None]
    return {axis for axes in known for axis in axes} if meshes and len(known) == len(meshes) else set()


def _format_alternatives(names: list[str]) -> str:
    return f"the mesh may be {' or '.join(f'`{one}`' for one in names)}"


def _other_mesh_made(site: Site, name: str, specs: Sequence[Spec]) -> str:
    """Where code that runs with the file makes another mesh than the module's, which may have the axes of the specs.

    Empty where none does. No context says which of them a bare spec means.
    """
    asked, own = _axes_of_specs(specs), _call_results(site, name)
    made = {id(one.call.place.node) for one in own if one.call is not None}
    for file in site.program.together(site.file):
        for maker in _MAKERS:
            for node in file.find_mentions(maker):
                call = file.parent(node)
                if not isinstance(call, ast.Call) or call.func is not node or id(call) in made:
                    continue
                found = [one for one in options(site.program.value(file, call)) if one not in own]
                if any(_may_have(site, one, asked) for one in found):
                    line = f"line {call.lineno}"
                    return line if file is site.file else f"line {call.lineno} of {file.path.name}"
    return ""


def _may_have(site: Site, value: Value, axes: set[str]) -> bool:
    """Return whether a value is a mesh that is made here, and may have some axes."""
    mesh = site.mesh_of(value) if isinstance(value, CallResult) and value.api in _MAKERS.values() else None
    return mesh is not None and (mesh.axis_names is None or axes <= set(mesh.axis_names))


def _meshes_from_parameters(site: Site) -> list[str]:
    """How the meshes are written that parameters of the function bring along."""
    function = site.scope.enclosing_function()
    if function is None or not isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    args = function.node.args
    positional = [*args.posonlyargs, *args.args][int(takes_self(function)) :]
    found = []
    for one in (*positional, *args.kwonlyargs):
        if lookup_bindings(site.file, site.syntax, one.arg)[1] is function:
            found += meshes_of_parameter(site, one.arg, one.annotation, function.node)
    return found


def _check_mesh_contexts(site: Site, name: str | None, entered: Sequence[MeshContext], why: str) -> MeshExpression:
    if name is None:
        return MeshExpression(None, why)
    made = _call_making_mesh(site, name)
    for context in entered:
        if _is_entered_mesh_named(site, name, context):
            continue
        if context.mesh is None:
            return MeshExpression(
                None, f"a call runs under `{context.place.source_text()}`, and its mesh may differ from `{name}`"
            )
        if made is not None and context.mesh.place.node is not made:
            return MeshExpression(None, f"a call runs under a mesh other than `{name}`")
    return MeshExpression(name)


def _is_entered_mesh_named(site: Site, name: str, context: MeshContext) -> bool:
    """Return whether the entered mesh is the variable of that name."""
    node = context.place.node
    if not isinstance(node, ast.Name) or node.id != name or context.place.file is not site.file:
        return False
    return lookup_bindings(site.file, node, name) == lookup_bindings(site.file, site.syntax, name)


def _are_contexts_mesh(site: Site, name: str, entered: Sequence[MeshContext]) -> bool:
    """Return whether all contexts around are known, and enter the mesh of that name."""
    made = _call_making_mesh(site, name)
    return bool(entered) and all(
        _is_entered_mesh_named(site, name, one) or (one.mesh is not None and one.mesh.place.node is made)
        for one in entered
    )


def _call_making_mesh(site: Site, name: str) -> ast.AST | None:
    """The call that makes the mesh a name is, where that is one."""
    found = [one.call.place.node for one in _call_results(site, name) if one.call is not None]
    return found[0] if len(found) == 1 else None


def _call_results(site: Site, name: str) -> list[CallResult]:
    """The results of calls that a name may be."""
    bindings, _ = lookup_bindings(site.file, site.syntax, name)
    values = [site.program.evaluator.evaluate_binding(site.file, binding) for binding in bindings]
    found = [one for value in values for one in options(site.program.followed(value))]
    return [one for one in found if isinstance(one, CallResult)]


def _mesh_names_in_scopes(site: Site, scopes: list[Scope]) -> list[str]:
    """The names of these scopes that stand for a mesh at the site, the innermost first."""
    found: list[str] = []
    for scope in scopes:
        found += [
            name
            for name in site.file.walk_scope(scope).bindings
            if name not in found and _stands_for_mesh(site, scope, name)
        ]
    return found


def _stands_for_mesh(site: Site, scope: Scope, name: str) -> bool:
    bindings, owner = lookup_bindings(site.file, site.syntax, name)
    if owner is not scope or not bindings:
        return False
    if all(binding.kind == "param" for binding in bindings):
        return name == "mesh" or any(
            is_mesh_type(site, site.file, binding.annotation) for binding in bindings
        )
    values = [site.program.evaluator.evaluate_binding(site.file, binding) for binding in bindings]
    return is_mesh(values)


def _mesh_of_object(site: Site) -> MeshExpression | None:
    """The mesh that the object of the method around the site keeps; None where it keeps none that is seen."""
    for scope in site.scope.enclosing_scopes():
        if scope.kind != "function" or scope.parent is None or scope.parent.kind != "class":
            continue
        assert isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef)
        first = next(iter((*scope.node.args.posonlyargs, *scope.node.args.args)), None)
        static = is_static(scope.node)
        found = _meshes_read_from_object(
            site, scope.parent, first.arg if first is not None and not static else "self"
        )
        if not found:
            return None
        if first is None or static or scope.node.name == "__init__" or _is_of_class(site, scope.node):
            return MeshExpression(None, f"the object has a mesh in `{found[0]}`")
        if len(found) > 1 or lookup_bindings(site.file, site.syntax, first.arg)[1] is not scope:
            return MeshExpression(None, f"the object has meshes in {' and '.join(f'`{one}`' for one in found)}")
        return MeshExpression(found[0])
    return None


def _is_of_class(site: Site, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(site.text(one) == "classmethod" for one in node.decorator_list)


def _meshes_read_from_object(site: Site, scope: Scope, first: str) -> list[str]:
    """How the meshes that the object keeps are written; else those that the class reads through what it keeps."""
    found = mesh_attributes(site, class_around(site, scope))
    return [f"{first}.{name}" for name in found] or read_through(site, scope.node, first)
