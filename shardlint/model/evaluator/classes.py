"""Classes of the project: their bases, members, and what their methods assign to `self`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.evaluator.mutations import filled_in_parts
from shardlint.model.evaluator.objects import Objects
from shardlint.model.needs import Memo
from shardlint.model.values import (
    Assumed,
    CallArguments,
    CallResult,
    ClassValue,
    Environment,
    Function,
    ModuleValue,
    Place,
    Transformed,
    Unknown,
    Value,
    choose_value,
    mark_assumed,
    options,
)
from shardlint.syntax import Binding, FileFacts
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator


_PROPERTIES = ("builtins.property", "functools.cached_property")


class Classes:
    """Looks up members, for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.objects = Objects(evaluator)
        self._lineages: Memo[ast.AST, list[ClassValue]] = Memo(evaluator.project.needs)

    def evaluate_member(self, cls: ClassValue, name: str, instance: CallResult | None, set_again: bool = True) -> Value:
        """An attribute of a class, or of an instance of it: methods, fields, properties, `self.name = ...`.

        Not `set_again`: as it was before an object was given another in place of a method.
        """
        for candidate in self.project_ancestors(cls):
            file = candidate.place.file
            scope = file.scope(candidate.node)
            bindings = [b for b in file.bindings(scope, name) if b.kind not in ("declared", "delete")]
            if instance is not None and any(_is_field(file, binding) for binding in bindings):
                return self._field_value(cls, instance, name)
            if bindings:
                values = []
                for binding in bindings:
                    value = self.evaluator.evaluate_binding(file, binding)
                    values.append(self._bind_member(value, cls, instance))
                if instance is not None and all(binding.kind == "assign" for binding in bindings):
                    values += self._values_assigned_to_self(candidate, name, instance)
                elif instance is not None and set_again and file.contains_text(f".{name} = "):
                    again = self._values_assigned_to_self(candidate, name, instance)
                    if again and self._is_set_in_init(candidate, name):
                        return choose_value(again)
                    values += again
                return choose_value(values)
            if instance is not None:
                if name in self.objects.list_fields(candidate):  # `size: int`, without a default
                    return self._field_value(cls, instance, name)
                assigned = self._values_assigned_to_self(candidate, name, instance)
                if assigned:
                    return choose_value(assigned)
        return self._attribute_of_delegate(cls, name, instance) or Unknown(
            f"{cls.node.name} has no known {name}"
        )

    def _attribute_of_delegate(self, cls: ClassValue, name: str, instance: CallResult | None) -> Value | None:
        """Return the attribute that `__getattr__` reads from another object: `return getattr(self.chosen, name)`.

        Where that is one of several, the first: which one is often told by an environment variable.
        """
        if instance is None or name.startswith("__"):
            return None
        hooks = [
            Place(owner.place.file, binding.node)
            for owner in self.project_ancestors(cls)
            for binding in owner.place.file.bindings(owner.place.file.scope(owner.node), "__getattr__")
            if isinstance(binding.node, ast.FunctionDef)
        ]
        if not hooks:
            return None
        key = "handed on", hooks[0].node, name, instance.call
        return self.evaluator.answer_query(key, lambda: self._delegated_attribute(hooks[0], cls, name, instance))

    def _delegated_attribute(self, hook: Place, cls: ClassValue, name: str, instance: CallResult) -> Value:
        file, node = hook.file, hook.node
        assert isinstance(node, ast.FunctionDef)
        unknown = Unknown(f"{cls.node.name} has no known {name}")
        taken = [one.arg for one in node.args.args]
        returned = [one.value for one in walk_nodes(node) if isinstance(one, ast.Return)]
        asked = [one.args[0] for one in delegating_calls(node) if [getattr(one.args[1], "id", "")] == taken[1:]]
        if len(asked) != 1:
            return unknown
        found: list[Value] = []
        for option in options(self.evaluator.value(Place(file, asked[0]), Environment({taken[0]: instance}))):
            if isinstance(option, ClassValue | CallResult | ModuleValue) and option not in found:
                found.append(option)
        if not found:
            return unknown
        value = self.evaluator.evaluate_attribute(found[0], name)
        if len(found) == len(returned) == 1:
            return value
        first = found[0].node.name if isinstance(found[0], ClassValue) else file.source_text(asked[0])
        return mark_assumed(
            value, Assumed(value, f"`{cls.node.name}.{name}` is that of `{first}`, or given elsewhere")
        )

    def _is_set_in_init(self, cls: ClassValue, name: str) -> bool:
        """Return whether `__init__` surely sets `self.name`, in a statement of its own block."""
        inits = [one for one in cls.node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        return any(
            isinstance(statement, ast.Assign)
            and any(
                isinstance(one, ast.Attribute) and one.attr == name and isinstance(one.value, ast.Name)
                for one in statement.targets
            )
            for init in inits
            for statement in init.body
        )

    def _field_value(self, cls: ClassValue, instance: CallResult, name: str) -> Value:
        """A field of a dataclass, NamedTuple or Module; or what a written `__init__` gives to an annotated name."""
        assigned = [
            value
            for candidate in self.project_ancestors(cls)
            for value in self._values_assigned_to_self(candidate, name, instance)
        ]
        if assigned:
            return choose_value(assigned)
        if self.objects.find_init(cls) is not None and instance.call is not None:
            binding, owner = self.objects.list_fields(cls)[name]
            default = self.objects.evaluate_default(binding, Place(owner.place.file, binding.node))
            return default or Unknown(f"{name} is set out of sight")
        return self.objects.evaluate_field(cls, instance, name)

    def _bind_member(self, value: Value, cls: ClassValue, instance: CallResult | None) -> Value:
        """A member of a class as it is seen on an instance: methods have their self, properties are read."""
        if instance is not None and isinstance(value, Transformed) and value.api.name in _PROPERTIES:
            method = _bind_self(value.inner, cls, instance)
            if isinstance(method, Function):
                return self.evaluator.apply_callee(method, CallArguments(method.place, (), {}))
            return Unknown("a property")
        return _bind_self(value, cls, instance)

    def project_ancestors(self, cls: ClassValue) -> list[ClassValue]:
        """A class and those of its bases that are in the project, nearest first."""
        if not cls.node.bases:
            return [cls]
        return [cls, *self.evaluator.memoize_if_complete(self._lineages, cls.node, lambda: self._list_ancestors(cls))]

    def _list_ancestors(self, cls: ClassValue) -> list[ClassValue]:
        found = [cls]
        for candidate in found:
            if len(found) > 16:
                break
            for base in candidate.node.bases:
                value = self.evaluator.value(Place(candidate.place.file, base))
                if isinstance(value, ClassValue) and value not in found:
                    found.append(value)
        return found[1:]

    def _values_assigned_to_self(self, cls: ClassValue, name: str, instance: CallResult) -> list[Value]:
        """Values given to `self.name` in the methods of a class; in `__init__`, for the call that made the instance."""
        file = cls.place.file
        made = self.objects.bind_init(cls, instance.call) if instance.call is not None else None
        set_here, parts = file.remember_for_file(
            ("set in", (cls.node, name)), lambda: _attribute_assignments(file, cls.node, name)
        )
        values: list[Value] = []
        for method, given in set_here:
            if given is not None:
                in_call = made[1] if made is not None and made[0].node is method else None
                values.append(self.evaluator.value(Place(file, given), in_call))
            else:
                values.append(Unknown("assigned in parts"))
        return [filled_in_parts(self.evaluator, file, parts, value) for value in values]


def _attribute_assignments(
    file: FileFacts, cls: ast.AST, name: str
) -> tuple[list[tuple[ast.AST, ast.expr | None]], list[ast.AST]]:
    """Where the methods of a class set an attribute: each with what it is set to, in one piece; and its other uses."""
    set_here: list[tuple[ast.AST, ast.expr | None]] = []
    others: list[ast.AST] = []
    for node in file.mentions_in(file.scope(cls), name):
        if not isinstance(node, ast.Attribute):
            continue
        if not isinstance(node.ctx, ast.Store):
            others.append(node)
            continue
        function = file.evaluation_scope(node).enclosing_function()
        if function is not None and function.parent is not None and function.parent.node is cls:
            set_here.append((function.node, _assigned_value(file, node)))
    return set_here, others


def delegating_calls(hook: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls by which a `__getattr__` reads other objects: `return getattr(self.chosen, name)`."""
    returned = [one.value for one in walk_nodes(hook) if isinstance(one, ast.Return)]
    return [
        one
        for one in returned
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "getattr" and one.args[1:]
    ]


def _assigned_value(file: FileFacts, target: ast.Attribute) -> ast.expr | None:
    """Return the value that an assignment gives a target: `self.a = x`, `self.a, self.b = x, y`."""
    parent = file.parent(target)
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        return parent.value
    outer = file.parent(parent) if isinstance(parent, ast.Tuple | ast.List) else None
    if not isinstance(outer, ast.Assign) or not isinstance(parent, ast.Tuple | ast.List):
        return None
    value = outer.value
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) != len(parent.elts):
        return None
    starred = any(isinstance(one, ast.Starred) for one in (*parent.elts, *value.elts))
    return None if starred or parent not in outer.targets else value.elts[parent.elts.index(target)]


def _is_field(file: FileFacts, binding: Binding) -> bool:
    annotation = binding.annotation
    return binding.kind == "assign" and annotation is not None and "ClassVar" not in file.source_text(annotation)


def _bind_self(value: Value, cls: ClassValue, instance: CallResult | None, on_class: bool = False) -> Value:
    """A method looked up on an instance (or a class method on its class) has its self; through decorators too."""
    if isinstance(value, Function):
        receiver = cls if on_class else instance
        return Function(value.place, receiver is not None, cls, receiver)
    if isinstance(value, Transformed):
        if value.api.name == "builtins.staticmethod":
            return value.inner
        if value.api.name == "builtins.classmethod":
            return _bind_self(value.inner, cls, None, True)
        return Transformed(value.api, _bind_self(value.inner, cls, instance, on_class), value.call)
    return value
