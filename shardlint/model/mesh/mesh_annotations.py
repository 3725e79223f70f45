"""Where the text says of an expression that it is a `jax.sharding.Mesh`, though not which one.

It says so by an annotation: of a parameter, a name, a field, a property or what a function returns. A `with` statement
asks, so `None` counts for nothing: it cannot be entered.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import (
    Api,
    CallResult,
    ClassValue,
    Constant,
    Function,
    Parameter,
    Place,
    options,
)
from shardlint.syntax import Binding, FileFacts, called_name
from shardlint.syntax.bindings import lookup_bindings

_MESH = "jax.sharding.Mesh"
_DEPTH = 6
_PROPERTIES = ("property", "cached_property")
_NONE = Constant(None)


class SaidMeshes:
    """Answers for expressions of a program."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def is_mesh_expression(self, place: Place, depth: int = 0) -> bool:
        """Return whether an expression is a mesh, made in the text or annotated as one, on every path to it."""
        found = [one for one in options(self.evaluator.value(place)) if one != _NONE]
        if found and all(
            (isinstance(one, CallResult) and one.api in MESH_MAKERS)
            or (isinstance(one, Parameter) and self.is_mesh_parameter(one))
            for one in found
        ):
            return True
        return depth < _DEPTH and self._is_written_as_mesh(place, depth + 1)

    def is_mesh_parameter(self, parameter: Parameter) -> bool:
        """`mesh: Mesh`, or `mesh: Mesh | None`."""
        node = parameter.place.node
        return (
            isinstance(node, ast.arg)
            and not _is_variadic(parameter.place.file, node)
            and self._annotates_mesh(parameter.place.file, node.annotation)
        )

    def _is_written_as_mesh(self, place: Place, depth: int) -> bool:
        """Told by how the expression is written, where its value is not known."""
        file = place.file
        match place.node:
            case ast.Name() as name:
                bindings, _ = lookup_bindings(file, name, name.id)
                return bool(bindings) and all(self._is_mesh_binding(file, one, depth) for one in bindings)
            case ast.Attribute() as attribute:
                owners = options(self.evaluator.value(Place(file, attribute.value)))
                classes = [self._class_of_value(one) for one in owners]
                return all(
                    one is not None and self._is_mesh_member(one, attribute.attr, depth) for one in classes
                )
            case ast.Call() as call:
                called = options(self.evaluator.value(Place(file, call.func)))
                return all(isinstance(one, Function) and self._returns_mesh(one) for one in called)
            case ast.IfExp(body=one, orelse=other):
                return self._are_all_meshes(file, [one, other], depth)
            case ast.BoolOp(op=ast.Or(), values=parts):
                return self._are_all_meshes(file, parts, depth)
            case ast.NamedExpr(value=given):
                return self.is_mesh_expression(Place(file, given), depth)
        return False

    def _are_all_meshes(self, file: FileFacts, parts: list[ast.expr], depth: int) -> bool:
        some = [one for one in parts if not (isinstance(one, ast.Constant) and one.value is None)]
        return bool(some) and all(self.is_mesh_expression(Place(file, one), depth) for one in some)

    def _is_mesh_binding(self, file: FileFacts, binding: Binding, depth: int) -> bool:
        """Return whether the binding of a name gives it a mesh."""
        if binding.kind == "param":
            if isinstance(binding.node, ast.arg) and _is_variadic(file, binding.node):
                return False
            return self._annotates_mesh(file, binding.annotation)
        if binding.kind in ("assign", "walrus"):
            if self._annotates_mesh(file, binding.annotation):
                return True
            return binding.value is not None and self._are_all_meshes(file, [binding.value], depth)
        if binding.kind == "with" and binding.index is None and binding.value is not None:
            return self.is_mesh_expression(Place(file, binding.value), depth)  # Mesh.__enter__ returns the mesh
        if binding.kind == "unpack" and binding.index is not None and isinstance(binding.value, ast.Call):
            called = options(self.evaluator.value(Place(file, binding.value.func)))
            return all(isinstance(one, Function) and self._returns_mesh(one, binding.index) for one in called)
        return False

    # functions and classes

    def _returns_mesh(self, function: Function, index: int | None = None) -> bool:
        """Return whether a function is annotated to return a mesh, or a tuple with one at an index."""
        node = function.node
        if not isinstance(node, ast.FunctionDef) or node.returns is None:
            return False
        annotation: ast.expr = node.returns
        if index is None:
            return self._annotates_mesh(function.place.file, annotation)
        if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
            return False
        parts = annotation.slice.elts
        named = self.evaluator.value(Place(function.place.file, annotation.value))
        if not isinstance(named, Api) or named.name not in ("builtins.tuple", "typing.Tuple"):
            return False
        return index < len(parts) and self._annotates_mesh(function.place.file, parts[index])

    def _class_of_value(self, value: object) -> ClassValue | None:
        """The class of the project that an object is of, or that it is."""
        if isinstance(value, ClassValue):
            return value
        return value.by if isinstance(value, CallResult) and isinstance(value.by, ClassValue) else None

    def _is_mesh_member(self, cls: ClassValue, name: str, depth: int) -> bool:
        """Return whether an attribute of a class or of its instances is a mesh, by the nearest class that has it."""
        for owner in self.evaluator.project_ancestors(cls):
            file = owner.place.file
            bindings = [one for one in file.bindings(file.scope(owner.node), name) if one.kind != "delete"]
            if any(one.annotation is not None for one in bindings):
                return any(self._annotates_mesh(file, one.annotation) for one in bindings)
            read = [one.node for one in bindings if isinstance(one.node, ast.FunctionDef) and _is_read(one.node)]
            if read:
                return all(self._is_mesh_property(file, one, depth) for one in read)
            given = list(_assignments_to_self(owner, name))
            if given:
                return any(
                    self._annotates_mesh(file, one.annotation)
                    for one in given
                    if isinstance(one, ast.AnnAssign)
                ) or (
                    all(one.value is not None for one in given)
                    and self._are_all_meshes(
                        file, [one.value for one in given if one.value is not None], depth
                    )
                )
            if bindings:
                return False
        return False

    def _is_mesh_property(self, file: FileFacts, node: ast.FunctionDef, depth: int) -> bool:
        if node.returns is not None:
            return self._annotates_mesh(file, node.returns)
        returned = [
            one.value for one in file.walk_scope(file.scope(node)).returns if isinstance(one, ast.Return) and one.value
        ]
        return bool(returned) and self._are_all_meshes(file, returned, depth)

    def _annotates_mesh(self, file: FileFacts, annotation: ast.expr | None) -> bool:
        if annotation is None:
            return False
        named = [one for one in annotated_classes(self.evaluator, Place(file, annotation)) if one != _NONE]
        return bool(named) and all(
            isinstance(one, Api) and one.name == _MESH
            for part in named
            for one in options(part)
        )


def _is_variadic(file: FileFacts, node: ast.arg) -> bool:
    """Return whether a parameter is `*meshes` or `**meshes`, whose annotation is that of one of them."""
    function = file.evaluation_scope(node).node
    return isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and (
        node is function.args.vararg or node is function.args.kwarg
    )


def _is_read(node: ast.FunctionDef) -> bool:
    """Return whether a method is read as an attribute."""
    return any(called_name(decorator) in _PROPERTIES for decorator in node.decorator_list)


def _assignments_to_self(owner: ClassValue, name: str) -> Iterator[ast.Assign | ast.AnnAssign]:
    """The assignments to `self.name` in the methods of a class; nothing where it is given in another way too."""
    file = owner.place.file
    found: list[ast.Assign | ast.AnnAssign] = []
    for node in file.mentions_in(file.scope(owner.node), name):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
            continue
        function = file.evaluation_scope(node).enclosing_function()
        if function is None or function.parent is None or function.parent.node is not owner.node:
            continue
        statement = file.parent(node)
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return
        found.append(statement)
    yield from found
