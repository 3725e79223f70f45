"""Sharding annotations in what functions and classes build. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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
# What is around a call that runs whenever its function does, and what of that may not run it.
_PLAIN = (ast.expr, ast.keyword, ast.Assign, ast.AnnAssign, ast.Expr, ast.With, ast.withitem)
_MAYBE = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Annotated:
    """Finds annotations in what functions and classes build."""

    def __init__(self, program: Program) -> None:
        self.evaluator = program.evaluator

    def built(self, function: Value) -> Iterator[Value]:
        """The objects that a function returns."""
        if isinstance(function, ClassValue):
            yield CallResult(function, None)
        elif isinstance(function, Function):
            file, node = function.place.file, function.node
            if isinstance(node, ast.Lambda):
                file.walked(file.scope(node))
                yield from options(self.evaluator.value(Place(file, node.body)))
                return
            for one in file.walked(file.scope(node)).returns:
                if isinstance(one, ast.Return) and one.value is not None:
                    yield from options(self.evaluator.value(Place(file, one.value)))

    def annotation(self, value: Value) -> Place | None:
        """Where a variable of an object is annotated with a mesh axis or logical name."""
        return next(self._of(value, 0), None)

    def surely_without_mesh(self, value: Value) -> Place | None:
        """Where a variable that every such object has is annotated, and given no mesh of its own."""
        for place in self._of(value, 0, always=True):
            call = place.node
            if isinstance(call, ast.Call) and all(one.arg not in (None, "mesh") for one in call.keywords):
                return place
        return None

    def variable(self, owner: Value, name: str) -> bool:
        """Whether an attribute of an object is surely a variable that is annotated with an axis."""
        if not isinstance(owner, CallResult):
            return False
        if owner.api in LAYERS and owner.call is not None:
            initializer = owner.call.get(f"{name}_init", ())
            return initializer is not None and self._initializer(
                self.evaluator.value(initializer, owner.call.environment)
            )
        found = options(self.evaluator.attribute(owner, name))
        return bool(found) and all(self._variable(one) for one in found)

    def _variable(self, value: Value) -> bool:
        if not isinstance(value, CallResult) or value.api not in VARIABLES or value.call is None:
            return False
        place, env = value.call.place, value.call.environment
        if isinstance(place.node, ast.Call) and self._annotates(value.api, place, place.node, env):
            return True
        first = value.call.positional[0] if value.call.positional else None
        if first is None or not isinstance(first.node, ast.Call):
            return False
        return self._initializer(self.evaluator.value(Place(first.file, first.node.func), env))

    def _initializer(self, value: Value) -> bool:
        """Whether a value is an initializer that `with_partitioning` or `with_metadata` annotated."""
        if not isinstance(value, CallResult) or value.call is None:
            return False
        made = value.call.place
        return isinstance(made.node, ast.Call) and self._annotates(
            value.api, made, made.node, value.call.environment
        )

    def _of(self, value: Value, depth: int, always: bool = False) -> Iterator[Place]:
        if not isinstance(value, CallResult) or depth > _DEPTH:
            return
        if value.api in LAYERS and value.call is not None:
            yield from self._given(value.call)
        if not isinstance(value.by, ClassValue):
            return
        seen: set[str] = set()
        for cls in self.evaluator.lineage(value.by):
            file = cls.place.file
            for statement in cls.node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name in ("__init__", "setup"):
                    # A base's __init__ may never run where the class has one of its own.
                    if not (always and statement.name in seen):
                        yield from self._in(file, statement, depth, always)
                    seen.add(statement.name)

    def _given(self, arguments: CallArguments) -> Iterator[Place]:
        """Annotated initializers that a layer of flax is given."""
        for place in arguments.keywords.values():
            value = self.evaluator.value(place, arguments.environment)
            if isinstance(value, CallResult) and value.call is not None and self._initializer(value):
                yield value.call.place

    def _in(self, file: FileFacts, init: ast.FunctionDef, depth: int, always: bool) -> Iterator[Place]:
        scope = file.scope(init)
        for call in file.walked(scope).calls:
            if always and not _runs(file, call, init):
                continue
            place = Place(file, call)
            for value in options(self.evaluator.value(Place(file, call.func))):
                if isinstance(value, Api) and self._annotates(value.name, place, call, None):
                    yield place
                elif isinstance(value, ClassValue):
                    yield from self._of(CallResult(value, None), depth + 1, always)
                elif isinstance(value, Function):
                    yield from self._from_maker(place, depth, always)

    def _from_maker(self, place: Place, depth: int, always: bool) -> Iterator[Place]:
        """Annotations of what a function of the project makes in a call: `linear(dim, 4 * dim, (None, "model"))`."""
        made = self.evaluator.value(place)
        if not isinstance(made, CallResult) or made.call is None:
            return
        if isinstance(made.by, ClassValue) or made.api in LAYERS:
            yield from self._of(made, depth + 1, always)
        elif self._initializer(made) or self._variable(made):
            yield made.call.place

    def _annotates(self, name: str, place: Place, call: ast.Call, env: Environment | None) -> bool:
        if name == WITH_PARTITIONING:
            given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "sharding")]
            return any(self._names(Place(place.file, one), env) for one in given)
        if name in VARIABLES or name == WITH_METADATA:
            given = [keyword.value for keyword in call.keywords if keyword.arg in KEYS]
            return any(self._names(Place(place.file, one), env) for one in given)
        return False

    def _names(self, place: Place, env: Environment | None) -> bool:
        """Whether an annotation surely names an axis: `(None, "model")`, `P("data")`."""
        value = self.evaluator.value(place, env)
        if isinstance(value, Items):
            return any(isinstance(item, Constant) and isinstance(item.value, str) for item in value.items)
        spec = spec_of(value, self.evaluator)
        return spec is not None and any(entry.axes for entry in spec.entries if entry.known)


def _runs(file: FileFacts, call: ast.Call, init: ast.FunctionDef) -> bool:
    """Whether a call in an `__init__` runs every time."""
    for outer in file.ancestors(call):
        if outer is init:
            return True
        if not isinstance(outer, _PLAIN) or isinstance(outer, _MAYBE):
            return False
    return False
