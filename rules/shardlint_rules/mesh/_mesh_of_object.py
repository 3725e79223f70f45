"""The meshes that objects of a class keep, in the class or its bases: fields, what methods set, properties."""

from __future__ import annotations

import ast

from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import Api, CallResult, ClassValue, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes


def is_mesh_name(name: str) -> bool:
    """Return whether a name is a usual name of a mesh."""
    return name.lower().rstrip("_").endswith("mesh")


def is_mesh(values: list[Value]) -> bool:
    """Return whether values are meshes made in the text."""
    found = [option for value in values for option in options(value)]
    return bool(found) and all(isinstance(option, CallResult) and option.api in MESH_MAKERS for option in found)


def is_mesh_type(site: Site, file: FileFacts, annotation: ast.expr | None) -> bool:
    """Return whether an annotation says that something is a mesh."""
    if annotation is None:
        return False
    found = options(site.program.value(file, annotation))
    return any(isinstance(one, Api) and one.name in MESH_MAKERS for one in found)


def mesh_attributes(site: Site, cls: ClassValue) -> list[str]:
    """The attributes of a class that are meshes."""
    found: dict[str, None] = {}
    hidden: set[str] = set()
    for owner in site.program.evaluator.project_ancestors(cls):
        file = owner.place.file
        scope = file.scope(owner.node)
        for binding in (one for bindings in file.bind_scope(scope).bindings.values() for one in bindings):
            if is_mesh_type(site, file, binding.annotation):
                found[binding.name] = None
        for method in scope.inner_scopes:
            if _is_property(file, method) and is_mesh_name(method.name):
                found[method.name] = None
                hidden |= _attributes_of_properties(file, method)
            for name in _mesh_attributes_set_by(site, file, method):
                found[name] = None
    return [name for name in found if name not in hidden]


def _attributes_of_properties(file: FileFacts, method: Scope) -> set[str]:
    """The attribute that a property gives as it is: `return self._mesh`."""
    match [one.value for one in file.walk_scope(method).returns if isinstance(one, ast.Return)]:
        case [ast.Attribute(value=ast.Name(id="self"), attr=name)]:
            return {name}
    return set()


def _is_property(file: FileFacts, method: Scope) -> bool:
    decorators = getattr(method.node, "decorator_list", ())
    return any(file.source_text(one).endswith("property") for one in decorators)


def _mesh_attributes_set_by(site: Site, file: FileFacts, method: Scope) -> list[str]:
    """The attributes of self that a method makes a mesh."""
    found = []
    for statement in file.walk_scope(method).statements:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                if target.value.id == "self" and _is_mesh_like(site, file, target.attr, statement.value):
                    found.append(target.attr)
    return found


def _is_mesh_like(site: Site, file: FileFacts, name: str, node: ast.expr) -> bool:
    """Return whether the value of an attribute is a mesh, or both have a usual name of one."""
    if is_mesh([site.program.value(file, node)]):
        return True
    match node:
        case ast.Attribute(attr=given):
            return is_mesh_name(given)
        case ast.Call():
            return is_mesh_name(name)
        case ast.Name(id=given):
            bindings, _ = lookup_bindings(file, node, given)
            return bool(bindings) and all(
                binding.kind == "param"
                and (is_mesh_name(given) or is_mesh_type(site, file, binding.annotation))
                for binding in bindings
            )
    return False


def read_through(site: Site, root: ast.AST, first: str) -> list[str]:
    """Meshes that a definition reads through another object: `self.config.mesh`, `config.mesh`."""
    found: dict[str, None] = {}
    for node in walk_nodes(root):
        if isinstance(node, ast.Attribute) and is_mesh_name(node.attr) and isinstance(node.ctx, ast.Load):
            text = site.text(node)
            if text.startswith(f"{first}.") and text.replace(".", "").isidentifier():
                found[text] = None
    return list(found)


def meshes_of_parameter(site: Site, parameter: str, annotation: ast.expr | None, root: ast.AST) -> list[str]:
    """How the meshes that a parameter brings along are written: fields of its class, or what the function reads."""
    found = read_through(site, root, parameter)
    if not found and annotation is not None:
        for option in options(site.value(annotation)):
            if isinstance(option, ClassValue):
                found += [f"{parameter}.{name}" for name in mesh_attributes(site, option)]
    return found


def class_around(site: Site, scope: Scope) -> ClassValue:
    """The class of a scope of the site's file."""
    return ClassValue(Place(site.file, scope.node))
