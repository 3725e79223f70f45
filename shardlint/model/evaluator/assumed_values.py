"""Most likely values of expressions that the text leaves open, derived from visible calls and defaults.

A view of the evaluator for findings that are `likely` or `possible`. It keeps the reasons it used, to be told.
"""

from __future__ import annotations

import ast

from shardlint.model.evaluator.callers import Callers
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.evaluator.ways import Way
from shardlint.model.values import (
    Assumed,
    Choice,
    Environment,
    Items,
    Leaves,
    Parameter,
    Place,
    Table,
    Unknown,
    Value,
    choose_value,
    options,
)
from shardlint.syntax import Binding, FileFacts, Scope

_DEPTH = 6


class Assuming(Evaluator):
    """Answers like the evaluator it is a view of. `why` are the reasons of what was assumed, in words, in order."""

    def __init__(
        self, strict: Evaluator, callers: Callers, scope: Scope | None = None, way: Way | None = None
    ) -> None:
        vars(self).update(vars(strict))  # the same project, and what is known of it
        self.strict = strict
        self.callers = callers
        self.scope = scope
        self.way = way
        self.why: list[str] = []

    def environment(self, place: Place) -> Environment | None:
        """Return the values of the parameters around an expression, on this path to it."""
        if self.way is None or self.scope is None:
            return None
        return self.way.environment if self.scope in place.scope.enclosing_scopes() else None

    def rests_on_call(self) -> None:
        """Say that the answer being made may be another where a call in sight is looked at."""
        self.strict.rests_on_call()

    def value(self, place: Place, environment: Environment | None = None) -> Value:
        """Return the most likely value of an expression."""
        return self.assume_value(self.strict.value(place, environment or self.environment(place)))

    def evaluate_binding(self, file: FileFacts, binding: Binding, env: Environment | None = None) -> Value:
        """Return the most likely value of a binding."""
        return self.assume_value(self.strict.evaluate_binding(file, binding, env))

    def evaluate_attribute(self, base: Value, name: str) -> Value:
        """Return the most likely value of an attribute."""
        return self.assume_value(self.strict.evaluate_attribute(base, name))

    def assume_value(self, value: Value, depth: int = 0) -> Value:
        """A value with what is not proven replaced by what it most likely is."""
        if depth > _DEPTH:
            return value
        match value:
            case Assumed(value=inner, why=why):
                if why not in self.why:
                    self.why.append(why)
                return self.assume_value(inner, depth + 1)
            case Choice():
                return choose_value([self.assume_value(option, depth + 1) for option in options(value)])
            case Items(kind=kind, items=items, open=is_open, repeated=repeated, names_of=names):
                known = tuple(self.assume_value(item, depth + 1) for item in items)
                return Items(kind, known, is_open, repeated, names and self.assume_value(names, depth + 1))
            case Table(entries=entries, open=is_open):
                return Table(tuple((key, self.assume_value(item, depth + 1)) for key, item in entries), is_open)
            case Leaves(of=leaf, kind=kind):
                return Leaves(self.assume_value(leaf, depth + 1), kind)
            case Parameter():
                return self._assume_parameter(value, depth)
        return value

    def _assume_parameter(self, value: Parameter, depth: int) -> Value:
        """A parameter: what every call in sight gives it, else its default."""
        followed = self.callers.followed(value)
        if not isinstance(followed, Parameter):
            return self.assume_value(followed, depth + 1)
        seen = [one for one in self.callers.visible_argument_values(value) if not isinstance(one, Unknown)]
        if seen and all(one == seen[0] for one in seen):
            why = f"every call in sight gives it as `{value.name}`"
            return self.assume_value(Assumed(seen[0], why), depth + 1)
        default = self._default_value(value)
        if default is None or seen:
            return value
        return self.assume_value(Assumed(default, f"`{value.name}` has this default"), depth + 1)

    def _default_value(self, value: Parameter) -> Value | None:
        file = value.place.file
        for binding in file.bindings(file.evaluation_scope(value.place.node), value.name):
            if binding.node is value.place.node and binding.value is not None:
                literal = binding.value
                if isinstance(literal, ast.Constant) and literal.value is None:
                    return None
                return self.strict.value(Place(file, literal))
        return None
