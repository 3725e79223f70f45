"""Sharding annotations in what functions and classes build. Shared by rules."""

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
from shardlint.syntax.nodes import walk
from shardlint_rules.flax.annotations import KEYS, LAYERS, VARIABLES, WITH_METADATA, WITH_PARTITIONING

_DEPTH = 4
# What is around a call that runs whenever its function does, and what of that may not run it.
_PLAIN = (ast.expr, ast.keyword, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.With, ast.withitem)
_MAYBE = (ast.IfExp, ast.BoolOp, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LEAVING = (ast.Break, ast.Continue, ast.Return)


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
                        function = Function(Place(file, statement), True, cls)
                        env = self.evaluator.parameters(function, value.call) if value.call is not None else None
                        yield from self._in(file, statement, env, depth, always)
                    seen.add(statement.name)

    def _given(self, arguments: CallArguments) -> Iterator[Place]:
        """Annotated initializers that a layer of flax is given."""
        for place in arguments.keywords.values():
            value = self.evaluator.value(place, arguments.environment)
            if isinstance(value, CallResult) and value.call is not None and self._initializer(value):
                yield value.call.place

    def _in(
        self, file: FileFacts, init: ast.FunctionDef, env: Environment | None, depth: int, always: bool
    ) -> Iterator[Place]:
        scopes = [one for one in file.inner_scopes(file.scope(init)) if not isinstance(one.node, _DEFINITIONS)]
        for call in chain.from_iterable(file.walked(one).calls for one in (file.scope(init), *scopes)):
            if always and not self._runs(file, call, init, env):
                continue
            place = Place(file, call)
            for value in options(self.evaluator.value(Place(file, call.func))):
                if isinstance(value, Api) and self._annotates(value.name, place, call, None):
                    yield place
                elif isinstance(value, Api) and value.name == "builtins.map" and self._turns(call, file, env):
                    made = self.evaluator.value(Place(file, call.args[0]))
                    if isinstance(made, ClassValue):
                        yield from self._of(CallResult(made, None), depth + 1, always)
                elif isinstance(value, ClassValue):
                    made_by = CallResult(value, self.evaluator.arguments(place, env))
                    yield from self._of(made_by, depth + 1, always)
                elif isinstance(value, Function):
                    yield from self._from_maker(place, depth, always)

    def _runs(self, file: FileFacts, call: ast.Call, init: ast.FunctionDef, env: Environment | None) -> bool:
        """Whether a call in an `__init__` runs every time: in loops and comprehensions that surely take a turn."""
        inner: ast.AST = call
        for outer in file.ancestors(call):
            match outer:
                case _ if outer is init:
                    return True
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    if not all(not one.ifs and self._elements(one.iter, file, env) for one in outer.generators):
                        return False
                case ast.comprehension():
                    pass  # its comprehension decides
                case ast.Lambda():
                    mapping = file.parent(outer)
                    if not isinstance(mapping, ast.Call) or not self._turns(mapping, file, env):
                        return False
                case ast.For(iter=iterated, body=body) if inner in body:
                    before = body[: body.index(inner)]
                    if any(isinstance(one, _LEAVING) for statement in before for one in walk(statement)):
                        return False
                    if not self._elements(iterated, file, env):
                        return False
                case _ if not isinstance(outer, _PLAIN) or isinstance(outer, _MAYBE):
                    return False
            inner = outer
        return False

    def _turns(self, call: ast.Call, file: FileFacts, env: Environment | None) -> bool:
        """Whether a call is `map(f, xs)` that surely calls `f`."""
        named = isinstance(call.func, ast.Name) and call.func.id == "map"
        return named and len(call.args) > 1 and all(self._elements(one, file, env) for one in call.args[1:])

    def _elements(self, iterated: ast.expr, file: FileFacts, env: Environment | None) -> bool:
        """Whether what a loop goes over surely has an element."""
        return bool(self.evaluator.trees.each(Place(file, iterated), env))

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
