"""What values most likely are, where the text proves nothing: in the calls in sight, and by defaults.

A view of the evaluator for findings that are `likely` or `possible`. It keeps the reasons it used, to be told.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from shardlint.model.ends import End
from shardlint.model.evaluator.callers import Callers, moved
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.needs import Memo
from shardlint.model.values import (
    Assumed,
    CallArguments,
    Choice,
    Environment,
    Function,
    Items,
    Leaves,
    Parameter,
    Place,
    Table,
    Unknown,
    Value,
    choice,
    options,
)
from shardlint.syntax import Binding, FileFacts, Scope

_DEPTH = 6
_LEVELS = 3
_VIEWS = 6
# Inside of these an array has other dimensions than outside.
_RESHAPING = ("jax.vmap", "equinox.filter_vmap", "flax.nnx.vmap", "jax.pmap", "jax.shard_map", "jax.lax.scan")


@dataclass(frozen=True, eq=False)
class Way:
    """One way to a function: what its parameters, and those of the functions around it, are in one call."""

    environment: Environment
    calls: tuple[Place, ...]
    """The calls that lead there, the nearest first."""


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
        """What the parameters of the function that an expression stands in are, on this way to it."""
        if self.way is None or self.scope is None:
            return None
        return self.way.environment if self.scope in place.scope.outward() else None

    def rests_on_call(self) -> None:
        """Say that the answer being made may be another where a call in sight is looked at."""
        self.strict.rests_on_call()

    def value(self, place: Place, environment: Environment | None = None) -> Value:
        """What an expression most likely is."""
        return self.settled(self.strict.value(place, environment or self.environment(place)))

    def binding(self, file: FileFacts, binding: Binding, env: Environment | None = None) -> Value:
        """What a binding most likely gives its name."""
        return self.settled(self.strict.binding(file, binding, env))

    def settled(self, value: Value, depth: int = 0) -> Value:
        """A value with what is not proven replaced by what it most likely is."""
        if depth > _DEPTH:
            return value
        match value:
            case Assumed(value=inner, why=why):
                if why not in self.why:
                    self.why.append(why)
                return self.settled(inner, depth + 1)
            case Choice():
                return choice([self.settled(option, depth + 1) for option in options(value)])
            case Items(kind=kind, items=items, open=is_open, repeated=repeated):
                return Items(kind, tuple(self.settled(item, depth + 1) for item in items), is_open, repeated)
            case Table(entries=entries, open=is_open):
                return Table(tuple((key, self.settled(item, depth + 1)) for key, item in entries), is_open)
            case Leaves(of=leaf, kind=kind):
                return Leaves(self.settled(leaf, depth + 1), kind)
            case Parameter():
                return self._given_as(value, depth)
        return value

    def _given_as(self, value: Parameter, depth: int) -> Value:
        """A parameter: what every call in sight gives it, else its default."""
        followed = self.callers.followed(value)
        if not isinstance(followed, Parameter):
            return self.settled(followed, depth + 1)
        seen = [one for one in self.callers.seen(value) if not isinstance(one, Unknown)]
        if seen and all(one == seen[0] for one in seen):
            why = f"every call in sight gives it as `{value.name}`"
            return self.settled(Assumed(seen[0], why), depth + 1)
        default = self._default(value)
        if default is None or seen:
            return value
        return self.settled(Assumed(default, f"`{value.name}` has this default"), depth + 1)

    def _default(self, value: Parameter) -> Value | None:
        file = value.place.file
        for binding in file.bindings(file.home(value.place.node), value.name):
            if binding.node is value.place.node and binding.value is not None:
                literal = binding.value
                if isinstance(literal, ast.Constant) and literal.value is None:
                    return None
                return self.strict.value(Place(file, literal))
        return None


class _Given(Mapping[str, Value]):
    """What the parameters of a function are in a call, each evaluated when it is asked for."""

    def __init__(self, evaluator: Evaluator, function: Function, arguments: CallArguments) -> None:
        self.evaluator = evaluator
        self.function = function
        self.arguments = arguments
        self._known: Memo[str, Value | None] = Memo(evaluator.project.needs)
        args = function.node.args
        self._names = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]

    def __getitem__(self, name: str) -> Value:
        if name not in self._names:
            raise KeyError(name)
        found = self._known.get(name, lambda: self.evaluator.parameter(self.function, self.arguments, name))
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Ways:
    """The ways to functions through the calls in sight, remembered."""

    def __init__(self, evaluator: Evaluator, callers: Callers) -> None:
        self.evaluator = evaluator
        self.callers = callers
        self._known: Memo[ast.AST, tuple[Way, ...]] = Memo(evaluator.project.needs)
        self._open: set[ast.AST] = set()

    def views(self, place: Place) -> Iterator[Assuming]:
        """A view for each way to a place that is in sight; one without a way where none is."""
        scope = place.scope.function()
        found = self.to(place.file, scope)[:_VIEWS] if scope is not None else ()
        for way in found:
            yield Assuming(self.evaluator, self.callers, _outermost(scope), way)
        if not found:
            yield Assuming(self.evaluator, self.callers)

    def to(self, file: FileFacts, scope: Scope, level: int = 0) -> tuple[Way, ...]:
        """The ways to a function, at most a few. `level` counts the calls that were followed to it."""
        if scope.node in self._open:
            return ()  # a function that calls itself
        if not self._open and level == 0:
            return self._known.get(scope.node, lambda: self._made(file, scope, level))
        return self._made(file, scope, level)  # what is asked on the way to another may be cut short

    def _made(self, file: FileFacts, scope: Scope, level: int) -> tuple[Way, ...]:
        self._open.add(scope.node)
        try:
            return tuple(self._found(file, scope, level))
        finally:
            self._open.discard(scope.node)

    def _found(self, file: FileFacts, scope: Scope, level: int) -> Iterator[Way]:
        around = scope.parent.function() if scope.parent is not None else None
        outer = self.to(file, around, level) if around is not None else ()
        inner = list(islice(self._called(file, scope, level), _VIEWS)) if level < _LEVELS else []
        if not inner:
            yield from outer
        for way in inner:
            for other in outer[:1]:  # the functions around it are as in one of their calls
                known = ChainMap(dict[str, Value](), way.environment.values, other.environment.values)  # type: ignore[arg-type]
                yield Way(Environment(known), way.calls + other.calls)
            if not outer:
                yield way

    def _called(self, file: FileFacts, scope: Scope, level: int) -> Iterator[Way]:
        known = self.callers.calls(file, scope)
        if known is None:
            return
        function, ends = known
        for end in ends.found:
            if end.kind != "called" or _moved(end) or not isinstance(end.place.node, ast.Call):
                continue
            caller = end.place.scope.function()
            above: tuple[Way | None, ...] = (None,)
            if caller is not None:
                above = self.to(end.place.file, caller, level + 1)[:2] or above
            for way in above:
                environment = way.environment if way is not None else None
                arguments = self.evaluator.arguments(end.place, environment)
                called = self.callers.receiving(function, end, environment)
                given = Environment(_Given(self.evaluator, called, arguments))
                yield Way(given, (end.place, *(way.calls if way is not None else ())))


def _outermost(scope: Scope | None) -> Scope | None:
    """The function around all functions that a scope is in: their parameters are seen from inside."""
    while scope is not None and scope.parent is not None and scope.parent.function() is not None:
        scope = scope.parent.function()
    return scope


def _moved(end: End) -> bool:
    """Whether something between a call and its function moves or reshapes arguments."""
    return moved(end) or any(wrapper.api in _RESHAPING for wrapper in end.wrappers)
