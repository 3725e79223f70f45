"""Sharding annotations in what functions and classes build. For SL506."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from shardlint.model import Program
from shardlint.model.mesh.meshes import spec_of
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    ClassValue,
    Constant,
    Environment,
    Function,
    Items,
    Place,
    Value,
    options,
)
from shardlint.syntax import FileFacts
from shardlint_rules.flax.annotations import KEYS, LAYERS, VARIABLES, WITH_METADATA, WITH_PARTITIONING

_DEPTH = 4
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Annotated:
    """Finds annotations in what functions and classes build."""

    def __init__(self, program: Program) -> None:
        self.evaluator = program.evaluator

    def find_built(self, function: Value) -> Iterator[Value]:
        """The objects that a function returns."""
        if isinstance(function, ClassValue):
            yield CallResult(function, None)
        elif isinstance(function, Function):
            file, node = function.place.file, function.node
            if isinstance(node, ast.Lambda):
                file.walk_scope(file.scope(node))
                yield from options(self.evaluator.value(Place(file, node.body)))
                return
            for one in file.walk_scope(file.scope(node)).returns:
                if isinstance(one, ast.Return) and one.value is not None:
                    yield from options(self.evaluator.value(Place(file, one.value)))

    def find_annotation(self, value: Value) -> Place | None:
        """Where a variable of an object is annotated with a mesh axis or logical name."""
        return next(self._search_value(value, 0), None)

    def _annotates_variable(self, value: Value) -> bool:
        if not isinstance(value, CallResult) or value.api not in VARIABLES or value.call is None:
            return False
        place, env = value.call.place, value.call.environment
        if isinstance(place.node, ast.Call) and self._annotates_call(value.api, place, place.node, env):
            return True
        first = value.call.positional[0] if value.call.positional else None
        if first is None or not isinstance(first.node, ast.Call):
            return False
        return self._annotates_initializer(self.evaluator.value(Place(first.file, first.node.func), env))

    def _annotates_initializer(self, value: Value) -> bool:
        """Return whether a value is an initializer that `with_partitioning` or `with_metadata` annotated."""
        if not isinstance(value, CallResult) or value.call is None:
            return False
        made = value.call.place
        return isinstance(made.node, ast.Call) and self._annotates_call(
            value.api, made, made.node, value.call.environment
        )

    def _search_value(self, value: Value, depth: int) -> Iterator[Place]:
        if not isinstance(value, CallResult) or depth > _DEPTH:
            return
        if value.api in LAYERS and value.call is not None:
            yield from self._search_arguments(value.call)
        if not isinstance(value.by, ClassValue):
            return
        for cls in self.evaluator.project_ancestors(value.by):
            file = cls.place.file
            for statement in cls.node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name in ("__init__", "setup"):
                    function = Function(Place(file, statement), True, cls)
                    env = self.evaluator.bind_parameters(function, value.call) if value.call is not None else None
                    yield from self._search_statement(file, statement, env, depth)

    def _search_arguments(self, arguments: CallArguments) -> Iterator[Place]:
        """Annotated initializers that a layer of flax is given."""
        for place in arguments.keywords.values():
            value = self.evaluator.value(place, arguments.environment)
            if isinstance(value, CallResult) and value.call is not None and self._annotates_initializer(value):
                yield value.call.place

    def _search_statement(
        self, file: FileFacts, init: ast.FunctionDef, env: Environment | None, depth: int
    ) -> Iterator[Place]:
        scopes = [one for one in file.inner_scopes(file.scope(init)) if not isinstance(one.node, _DEFINITIONS)]
        for call in chain.from_iterable(file.walk_scope(one).calls for one in (file.scope(init), *scopes)):
            place = Place(file, call)
            for value in options(self.evaluator.value(Place(file, call.func))):
                if isinstance(value, Api) and self._annotates_call(value.name, place, call, None):
                    yield place
                elif isinstance(value, ClassValue):
                    made_by = CallResult(value, self.evaluator.read_arguments(place, env))
                    yield from self._search_value(made_by, depth + 1)
                elif isinstance(value, Function):
                    yield from self._search_maker(place, depth)

    def _search_maker(self, place: Place, depth: int) -> Iterator[Place]:
        """Annotations of what a function of the project makes in a call: `linear(dim, 4 * dim, (None, "model"))`."""
        made = self.evaluator.value(place)
        if not isinstance(made, CallResult) or made.call is None:
            return
        if isinstance(made.by, ClassValue) or made.api in LAYERS:
            yield from self._search_value(made, depth + 1)
        elif self._annotates_initializer(made) or self._annotates_variable(made):
            yield made.call.place

    def _annotates_call(self, name: str, place: Place, call: ast.Call, env: Environment | None) -> bool:
        if name == WITH_PARTITIONING:
            given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "sharding")]
            return any(self._names_an_axis(Place(place.file, one), env) for one in given)
        if name in VARIABLES or name == WITH_METADATA:
            given = [keyword.value for keyword in call.keywords if keyword.arg in KEYS]
            return any(self._names_an_axis(Place(place.file, one), env) for one in given)
        return False

    def _names_an_axis(self, place: Place, env: Environment | None) -> bool:
        """Return whether an annotation surely names an axis: `(None, "model")`, `P("data")`."""
        value = self.evaluator.value(place, env)
        if isinstance(value, Items):
            return any(isinstance(item, Constant) and isinstance(item.value, str) for item in value.items)
        spec = spec_of(value, self.evaluator)
        return spec is not None and any(entry.axes for entry in spec.entries if entry.known)
