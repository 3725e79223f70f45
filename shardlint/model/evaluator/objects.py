"""Instances of the project's classes: what their fields hold, told by the call that made them, or by a default."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.evaluator import sequence_parts
from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.needs import Memo
from shardlint.model.values import (
    Api,
    Assumed,
    CallArguments,
    CallResult,
    ClassValue,
    Constant,
    Environment,
    Function,
    Parameter,
    Place,
    Unknown,
    Value,
)
from shardlint.syntax import Binding, FileFacts

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

# What describes a field instead of being its default: `dataclasses.field`, `eqx.field`, `struct.field`, `Field`.
_FIELD = ("field", "Field", "static_field")


class Objects:
    """Looks up fields, for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._fields: Memo[ast.AST, dict[str, tuple[Binding, ClassValue]]] = Memo(
            evaluator.project.needs
        )

    def list_fields(self, cls: ClassValue) -> dict[str, tuple[Binding, ClassValue]]:
        """The annotated fields, in the order in which a generated `__init__` takes them; the nearest class wins."""
        return self.evaluator.memoize_if_complete(self._fields, cls.node, lambda: self._find_members(cls))

    def _find_members(self, cls: ClassValue) -> dict[str, tuple[Binding, ClassValue]]:
        found: dict[str, tuple[Binding, ClassValue]] = {}
        for owner in reversed(self.evaluator.project_ancestors(cls)):
            file = owner.place.file
            for name, bindings in file.bind_scope(file.scope(owner.node)).bindings.items():
                typed = [one for one in bindings if one.annotation is not None]
                if typed and "ClassVar" not in file.source_text(typed[-1].annotation or typed[-1].node):
                    found[name] = (typed[-1], owner)
        return found

    def find_init(self, cls: ClassValue) -> Function | None:
        """The `__init__` written in the class or the nearest of its bases."""
        for owner in self.evaluator.project_ancestors(cls):
            file = owner.place.file
            for binding in file.bindings(file.scope(owner.node), "__init__"):
                if isinstance(binding.node, ast.FunctionDef):
                    return Function(Place(file, binding.node), True, cls)
        return None

    def bind_init(self, cls: ClassValue, call: CallArguments) -> tuple[Function, Environment] | None:
        """The written `__init__` of a class, and its parameters in the call that makes an instance."""
        init = self.find_init(cls)
        return (init, self.evaluator.bind_parameters(init, call)) if init is not None else None

    def evaluate_field(self, cls: ClassValue, instance: CallResult, name: str) -> Value:
        """Return the value of a field of an instance that was made by its generated `__init__`."""
        binding, owner = self.list_fields(cls)[name]
        place = Place(owner.place.file, binding.node)
        call = instance.call
        if call is not None:
            names = tuple(self.list_fields(cls))
            given = call.argument_for(name, names)
            if given is not None:
                known = self.evaluator.value(given, call.environment)
                unknown = type(known) is Unknown or isinstance(known, Parameter)
                return (self.evaluator.annotated_instance(place.file, binding) or known) if unknown else known
            hidden = sequence_parts.evaluate_star_keywords(self.evaluator, call) if call.open_keywords else None
            told = hidden.value_under(name) if hidden is not None else None
            if told is not None:
                return told
            if not call.may_have_argument(name, names) or (hidden is not None and not call.open_positional):
                return self.evaluate_default(binding, place) or Unknown(f"{name} has no default")
        default = self.evaluate_default(binding, place)
        if default is None or (default == Constant(None) and not self._may_be_none(place.file, binding)):
            some = self.evaluator.annotated_instance(place.file, binding)
            return some or Unknown(f"{name} is given when the object is made")
        self.evaluator.rests_on_call()
        return Assumed(default, f"`{name}` of `{cls.node.name}` has this default")

    def _may_be_none(self, file: FileFacts, binding: Binding) -> bool:
        """Return whether a field whose default is None may stay None: `size: int = None` is set before it is used."""
        annotation = binding.annotation
        return annotation is not None and Constant(None) in annotated_classes(self.evaluator, Place(file, annotation))

    def evaluate_default(self, binding: Binding, place: Place) -> Value | None:
        """The default of a field, if it has one; unknown where it is made in a way that the text does not tell."""
        if binding.value is None:
            return None
        value = self.evaluator.value(Place(place.file, binding.value))
        if not isinstance(value, CallResult) or value.call is None or not isinstance(value.by, Api):
            return value
        if value.api.rpartition(".")[2] not in _FIELD:
            return value
        call = value.call
        if "default" in call.keywords:
            return self.evaluator.value(call.keywords["default"], call.environment)
        factory = call.keywords.get("default_factory")
        if factory is not None:
            made = self.evaluator.value(factory, call.environment)
            return self.evaluator.apply_callee(made, CallArguments(call.place, (), {}, environment=call.environment))
        first = call.positional[0] if call.positional and value.api.endswith(".Field") else None  # pydantic
        if first is not None:
            default = self.evaluator.value(first, call.environment)
            return None if default == Constant(...) else default
        return Unknown("a field without a default") if call.open_keywords else None
