"""Classes of the project: their bases, members, and what their methods assign to `self`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.facts import Binding, FileFacts
from shardlint.program.values import ClassValue, Function, Made, Place, Unknown, Value, Wrapped, choice

if TYPE_CHECKING:
    from shardlint.program.evaluate import Evaluator


class Classes:
    """Looks up members, for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def member(self, cls: ClassValue, name: str, instance: Made | None) -> Value:
        """An attribute of a class, or of an instance of it: methods, fields, `self.name = ...`."""
        for candidate in self.lineage(cls):
            file = candidate.place.file
            scope = file.scope(candidate.node)
            bindings = [b for b in file.bindings(scope, name) if b.kind not in ("declared", "delete")]
            if bindings:
                if instance is not None and any(_is_field(file, binding) for binding in bindings):
                    return self._field(instance, name)
                values = []
                for binding in bindings:
                    value = self.evaluator.binding(file, binding)
                    values.append(_bind_self(value, cls, instance is not None))
                if instance is not None and all(binding.kind == "assign" for binding in bindings):
                    values += self._assigned(candidate, name)
                return choice(values)
            if instance is not None:
                assigned = self._assigned(candidate, name)
                if assigned:
                    return choice(assigned)
        return Unknown(f"{cls.node.name} has no known {name}")

    def _field(self, instance: Made, name: str) -> Value:
        """A field of a dataclass, NamedTuple or Module: the class shows its default only."""
        given = instance.call.keywords.get(name) if instance.call is not None else None
        if instance.call is None or given is None:
            return Unknown(f"{name} is given when the object is made")
        return self.evaluator.value(given, instance.call.environment)

    def lineage(self, cls: ClassValue) -> list[ClassValue]:
        """A class and those of its bases that are in the project, nearest first."""
        found = [cls]
        for candidate in found:
            if len(found) > 16:
                break
            for base in candidate.node.bases:
                value = self.evaluator.value(Place(candidate.place.file, base))
                if isinstance(value, ClassValue) and value not in found:
                    found.append(value)
        return found

    def _assigned(self, cls: ClassValue, name: str) -> list[Value]:
        """Values given to `self.name` in the methods of a class."""
        file = cls.place.file
        values = []
        for node in file.mentions(name):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            function = file.home(node).function()
            if function is None or function.parent is None or function.parent.node is not cls.node:
                continue
            parent = file.parent(node)
            if isinstance(parent, ast.Assign | ast.AnnAssign) and parent.value is not None:
                values.append(self.evaluator.value(Place(file, parent.value)))
            else:
                values.append(Unknown("assigned in parts"))
        return values


def _is_field(file: FileFacts, binding: Binding) -> bool:
    annotation = binding.annotation
    return binding.kind == "assign" and annotation is not None and "ClassVar" not in file.text(annotation)


def _bind_self(value: Value, cls: ClassValue, on_instance: bool) -> Value:
    """A method looked up on an instance has its self; through decorators too."""
    if isinstance(value, Function):
        return Function(value.place, on_instance, cls)
    if isinstance(value, Wrapped):
        if value.api.name == "builtins.staticmethod":
            return value.inner
        if value.api.name == "builtins.classmethod":
            return _bind_self(value.inner, cls, True)
        return Wrapped(value.api, _bind_self(value.inner, cls, on_instance), value.call)
    return value
