"""The mesh that a bare spec at a place means: that of the class, of the function, of the context; else the only one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from shardlint.facts import Scope
from shardlint.program.contexts import MeshContext
from shardlint.program.meshes import MESH_MAKERS
from shardlint.program.reach import lookup
from shardlint.program.values import Api, Made, Value, options
from shardlint.site import Site

_NO_MESH = "no one name stands for a mesh there"


@dataclass(frozen=True)
class Meant:
    """How the mesh is written; or why none is."""

    name: str | None
    why: str = ""


def mesh_meant(site: Site, entered: Sequence[MeshContext] = ()) -> Meant:
    """The mesh that is meant at a site, of which `entered` are the mesh contexts around its calls.

    What is nearest counts: a parameter or variable of the function, then the mesh that the object keeps, then one of
    the module. It must be the mesh that is entered, where one is.
    """
    local = _names(site, [scope for scope in site.scope.outward() if scope.kind in ("function", "lambda")])
    if local:
        name = "mesh" if "mesh" in local else local[0] if len(local) == 1 else None
        return _checked(site, name, entered, f"it may be {' or '.join(f'`{one}`' for one in local)}")
    kept = _of_the_object(site)
    if kept is not None:
        return kept
    found = _names(site, [scope for scope in site.scope.outward() if scope.kind == "module"])
    name = found[0] if len(found) == 1 else None
    why = f"it may be {' or '.join(f'`{one}`' for one in found)}" if found else _NO_MESH
    return _checked(site, name, entered, why)


def _checked(site: Site, name: str | None, entered: Sequence[MeshContext], why: str) -> Meant:
    if name is None:
        return Meant(None, why)
    made = _made(site, name)
    for context in entered:
        if _same_name(site, name, context):
            continue
        if context.mesh is None:
            return Meant(
                None, f"it is called under `{context.place.text()}`, which may be another mesh than `{name}`"
            )
        if made is not None and context.mesh.place.node is not made:
            return Meant(None, f"it is called under another mesh than `{name}`")
    return Meant(name)


def _same_name(site: Site, name: str, context: MeshContext) -> bool:
    """Whether what is entered is the variable of that name."""
    node = context.place.node
    if not isinstance(node, ast.Name) or node.id != name or context.place.file is not site.file:
        return False
    return lookup(site.file, node, name) == lookup(site.file, site.call, name)


def _made(site: Site, name: str) -> ast.AST | None:
    """The call that makes the mesh a name is, where that is one."""
    bindings, _ = lookup(site.file, site.call, name)
    values = [site.program.evaluator.binding(site.file, binding) for binding in bindings]
    found = [one for value in values for one in options(site.program.followed(value))]
    if len(found) == 1 and isinstance(found[0], Made) and found[0].call is not None:
        return found[0].call.place.node
    return None


def _names(site: Site, scopes: list[Scope]) -> list[str]:
    """The names of these scopes that stand for a mesh at the site, the innermost first."""
    found: list[str] = []
    for scope in scopes:
        found += [
            name
            for name in site.file.walked(scope).bindings
            if name not in found and _stands_for_mesh(site, scope, name)
        ]
    return found


def _stands_for_mesh(site: Site, scope: Scope, name: str) -> bool:
    bindings, owner = lookup(site.file, site.call, name)
    if owner is not scope or not bindings:
        return False
    if all(binding.kind == "param" for binding in bindings):
        return name == "mesh" or any(_is_mesh_type(site, binding.annotation) for binding in bindings)
    values = [site.program.evaluator.binding(site.file, binding) for binding in bindings]
    return _is_mesh(values)


def _is_mesh(values: list[Value]) -> bool:
    found = [option for value in values for option in options(value)]
    return bool(found) and all(isinstance(option, Made) and option.api in MESH_MAKERS for option in found)


def _is_mesh_type(site: Site, annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    return any(isinstance(one, Api) and one.name in MESH_MAKERS for one in options(site.value(annotation)))


def _of_the_object(site: Site) -> Meant | None:
    """The mesh that the object of the method around the site keeps; None where it keeps none that is seen."""
    for scope in site.scope.outward():
        if scope.kind != "function" or scope.parent is None or scope.parent.kind != "class":
            continue
        assert isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef)
        first = next(iter((*scope.node.args.posonlyargs, *scope.node.args.args)), None)
        kept = _kept(site, scope.parent)
        if not kept:
            return None
        if first is None or scope.node.name == "__init__" or _is_static(site, scope.node):
            return Meant(None, f"the object keeps a mesh as `self.{kept[0]}`")
        if len(kept) > 1 or lookup(site.file, site.call, first.arg)[1] is not scope:
            return Meant(None, f"the object keeps a mesh as {' and '.join(f'`self.{one}`' for one in kept)}")
        return Meant(f"{first.arg}.{kept[0]}")
    return None


def _is_static(site: Site, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(site.text(one) in ("staticmethod", "classmethod") for one in node.decorator_list)


def _kept(site: Site, scope: Scope) -> list[str]:
    """The attributes of a class that are meshes: fields of that type, and what its methods set."""
    found: dict[str, None] = {}
    assert isinstance(scope.node, ast.ClassDef)
    for binding in (one for bindings in site.file.bound(scope).bindings.values() for one in bindings):
        if _is_mesh_type(site, binding.annotation):
            found[binding.name] = None
    for method in scope.children:
        for statement in site.file.walked(method).statements:
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    if target.value.id == "self" and _mesh_like(site, statement.value):
                        found[target.attr] = None
    return list(found)


def _mesh_like(site: Site, node: ast.expr) -> bool:
    """Whether an expression is a mesh, or a parameter that is called or annotated so."""
    if _is_mesh([site.value(node)]):
        return True
    if not isinstance(node, ast.Name):
        return False
    bindings, _ = lookup(site.file, node, node.id)
    return bool(bindings) and all(
        binding.kind == "param" and (node.id == "mesh" or _is_mesh_type(site, binding.annotation))
        for binding in bindings
    )
