"""The name of the mesh that a bare spec means: the nearest one in scope."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallResult, options
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope
from shardlint.syntax.nodes import is_static, walk


def name_of_mesh(site: Site, contexts: Sequence[MeshContext]) -> str | None:
    """The mesh of the innermost scope that has any; None if it has several, or a context enters another one."""
    for scope in site.scope.outward():
        names = _attributes(site, scope) if scope.kind == "class" else _variables(site, scope)
        if names:
            is_meant = len(names) == 1 and all(_is_entered(site, names[0], one) for one in contexts)
            return names[0] if is_meant else None
    return None


def _variables(site: Site, scope: Scope) -> list[str]:
    """The parameters and variables of a scope that are meshes at the site."""
    return [name for name in site.file.walked(scope).bindings if _is_mesh(site, scope, name)]


def _is_mesh(site: Site, scope: Scope, name: str) -> bool:
    bindings, owner = lookup(site.file, site.syntax, name)
    if owner is not scope or not bindings:
        return False
    if all(binding.kind == "param" for binding in bindings):
        annotated = [options(site.value(one.annotation)) for one in bindings if one.annotation is not None]
        return name == "mesh" or any(
            isinstance(one, Api) and one.name in MESH_MAKERS for found in annotated for one in found
        )
    found = [one for binding in bindings for one in options(site.program.evaluator.binding(site.file, binding))]
    return all(isinstance(one, CallResult) and one.api in MESH_MAKERS for one in found)


def _attributes(site: Site, scope: Scope) -> list[str]:
    """The meshes that the methods of a class read through their object: `self.mesh`, `self.config.mesh`."""
    method = next((one for one in site.scope.outward() if one.parent is scope), None)
    node = method.node if method is not None else None
    if not isinstance(node, ast.FunctionDef) or is_static(node) or node.name == "__init__" or not node.args.args:
        return []
    first = node.args.args[0].arg
    read = [site.text(one) for one in walk(scope.node) if isinstance(one, ast.Attribute) and one.attr.endswith("mesh")]
    return list(dict.fromkeys(text for text in read if text.startswith(f"{first}.")))


def _is_entered(site: Site, name: str, context: MeshContext) -> bool:
    """True if a context enters the mesh of that name."""
    if context.mesh is None:
        return context.place.file is site.file and context.place.text() == name
    bindings, _ = lookup(site.file, site.syntax, name.partition(".")[0])
    values = [site.program.evaluator.binding(site.file, binding) for binding in bindings]
    meshes = [site.mesh_of(one) for value in values for one in options(site.program.followed(value))]
    return all(one is None or one.place.node is context.mesh.place.node for one in meshes)
