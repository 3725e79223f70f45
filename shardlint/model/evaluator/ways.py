"""The ways to a place: through the calls in sight, the leaves a function is mapped over, and the turns of loops."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from shardlint.model.evaluator.callers import Callers, moves_call_arguments
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.function_uses import FunctionUse
from shardlint.model.needs import Memo
from shardlint.model.values import CallArguments, Constant, Environment, Function, Place, Value
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.guards import is_branch_tested
from shardlint.syntax.nodes import walk_nodes

_LEVELS = 3
_VIEWS = 6
_TURNS = 16
# Inside of these an array has other dimensions than outside.
_RESHAPING = ("jax.vmap", "equinox.filter_vmap", "flax.nnx.vmap", "jax.pmap", "jax.shard_map", "jax.lax.scan")
_ELSEWHERE = ast.If | ast.IfExp | ast.While | ast.Match | ast.Try | ast.BoolOp
# What may never be gone through to its end, as generators are not, is none of its loops.
_OUTSIDE = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.GeneratorExp
_LEAVING = ast.Break | ast.Continue | ast.Return | ast.Raise | ast.Assert
_Loop = tuple[ast.expr, ast.expr]
"""What a loop goes over, and its target."""


@dataclass(frozen=True, eq=False)
class Way:
    """One way to a place: what the parameters of its function, and of those around it, are in one call."""

    environment: Environment
    calls: tuple[Place, ...]
    """The calls that lead there, the nearest first."""
    turn: str = ""
    """Which leaf of a tree, or which turn of a loop, it is, in words."""


class _ParameterValues(Mapping[str, Value]):
    """Values of the parameters of a function in a call, each evaluated on first use."""

    def __init__(self, evaluator: Evaluator, function: Function, arguments: CallArguments) -> None:
        self.evaluator = evaluator
        self.function = function
        self.arguments = arguments
        self._known: Memo[str, Value | None] = Memo(evaluator.project.needs)
        args = function.node.args
        star = (args.vararg,) if args.vararg is not None else ()
        self._names = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, *star)]

    def __getitem__(self, name: str) -> Value:
        if name not in self._names:
            raise KeyError(name)
        found = self._known.get_or_make(
            name, lambda: self.evaluator.bind_parameter(self.function, self.arguments, name)
        )
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Ways:
    """The ways to places that are in sight, remembered a function at a time."""

    def __init__(self, evaluator: Evaluator, callers: Callers) -> None:
        self.evaluator = evaluator
        self.callers = callers
        self._known: Memo[ast.AST, tuple[Way, ...]] = Memo(evaluator.project.needs)
        self._open: set[ast.AST] = set()

    def paths_to_place(self, place: Place) -> Iterator[tuple[Scope, Way]]:
        """The ways to a place, each with the scope whose inner scopes it tells of."""
        scope = place.scope.enclosing_function()
        found = self.paths_to_function(place.file, scope)[:_VIEWS] if scope is not None else ()
        around = _outermost_function(scope) or place.file.module
        turns = 0
        for way in found or (None,):
            if way is not None and way.turn and is_branch_tested(place.file, place.node):
                continue  # the leaf may not get here
            known = list(islice(self._ways_by_turn(place, way), _TURNS - turns))
            turns += len(known)
            for one in known or ([way] if way is not None else []):
                yield around, one

    # loops

    def _ways_by_turn(self, place: Place, way: Way | None) -> Iterator[Way]:
        """A way for each turn of the loops around a place; none where they may pass it by, or are not known."""
        file = place.file
        loops = list(_loops_around(file, place.node))
        if loops:
            before = way.environment if way is not None else Environment({})
            yield from self._iterate_loops(file, loops[-2:], Way(before, way.calls if way is not None else ()))

    def _iterate_loops(self, file: FileFacts, loops: list[_Loop], way: Way) -> Iterator[Way]:
        over, target = loops[0]
        known = self.evaluator.trees.iteration_values(Place(file, over), target, way.environment)
        if not known:
            return
        for number, bound in enumerate(known, 1):
            environment = Environment(way.environment.values, 0, {**way.environment.elements, **bound})
            inner = replace(way, environment=environment, turn=_describe_iteration(number, bound))
            yield from self._iterate_loops(file, loops[1:], inner) if len(loops) > 1 else (inner,)

    # calls

    def paths_to_function(self, file: FileFacts, scope: Scope, level: int = 0) -> tuple[Way, ...]:
        """The ways to a function, at most a few. `level` counts the calls that were followed to it."""
        if scope.node in self._open:
            return ()  # a function that calls itself
        if not self._open and level == 0:
            return self._known.get_or_make(scope.node, lambda: self._make_ways(file, scope, level))
        return self._make_ways(file, scope, level)  # what is asked on the way to another may be cut short

    def _make_ways(self, file: FileFacts, scope: Scope, level: int) -> tuple[Way, ...]:
        self._open.add(scope.node)
        try:
            return tuple(self._find_ways(file, scope, level))
        finally:
            self._open.discard(scope.node)

    def _find_ways(self, file: FileFacts, scope: Scope, level: int) -> Iterator[Way]:
        around = scope.parent.enclosing_function() if scope.parent is not None else None
        outer = self.paths_to_function(file, around, level) if around is not None else ()
        inner = list(islice(self._ways_from_callers(file, scope, level), _VIEWS)) if level < _LEVELS else []
        if not inner:
            yield from outer
        for way in inner:
            for other in outer[:1]:  # the functions around it are as in one of their calls
                known = ChainMap(dict[str, Value](), way.environment.values, other.environment.values)  # type: ignore[arg-type]
                yield Way(Environment(known), way.calls + other.calls, way.turn or other.turn)
            if not outer:
                yield way

    def _ways_from_callers(self, file: FileFacts, scope: Scope, level: int) -> Iterator[Way]:
        if isinstance(scope.node, ast.Lambda):
            for end in self.callers.flow.ends(file, scope.node).found:
                yield from self._paths_through_leaves(scope, end, level)
        known = self.callers.find_calls_around(file, scope)
        if known is None:
            return
        function, ends = known
        for end in ends.found:
            yield from self._paths_through_leaves(scope, end, level)
            if end.kind != "called" or _moves_arguments(end) or not isinstance(end.place.node, ast.Call):
                continue
            for way in self._ways_to_caller(end.place, level):
                environment = way.environment if way is not None else None
                arguments = self.evaluator.read_arguments(end.place, environment)
                called = self.callers.bind_receiver(function, end, environment)
                given = Environment(_ParameterValues(self.evaluator, called, arguments))
                yield Way(given, (end.place, *(way.calls if way is not None else ())))

    def _paths_through_leaves(self, scope: Scope, end: FunctionUse, level: int) -> Iterator[Way]:
        """The ways to a function that `jax.tree.map` runs: one for each leaf that is known."""
        mapped = end.wrappers[-1] if end.wrappers else None
        if end.kind != "called" or mapped is None or mapped.api not in MAPS or mapped.place != end.place:
            return
        for way in self._ways_to_caller(end.place, level):
            environment = way.environment if way is not None else None
            arguments = self.evaluator.read_arguments(end.place, environment)
            for node, given, path in self.evaluator.trees.find_mapped_calls(mapped.api, arguments):
                if node is scope.node:
                    around = environment.values if environment is not None else {}
                    known = ChainMap[str, Value](given.values, around)  # type: ignore[arg-type]
                    calls = (end.place, *(way.calls if way is not None else ()))
                    yield Way(Environment(known), calls, f"for the leaf {path}" if path else "for each leaf")

    def _ways_to_caller(self, place: Place, level: int) -> tuple[Way | None, ...]:
        """The ways to the function that a call stands in; a `None` where none is in sight, or it stands in none."""
        caller = place.scope.enclosing_function()
        found = self.paths_to_function(place.file, caller, level + 1)[:2] if caller is not None else ()
        # A leaf that is tested may not get to the call.
        return tuple(
            way for way in found if not way.turn or not is_branch_tested(place.file, place.node)
        ) or (None,)


def _outermost_function(scope: Scope | None) -> Scope | None:
    """The function around all functions that a scope is in: their parameters are seen from inside."""
    while scope is not None and scope.parent is not None and scope.parent.enclosing_function() is not None:
        scope = scope.parent.enclosing_function()
    return scope


def _moves_arguments(end: FunctionUse) -> bool:
    """Return whether code between a call and its function moves or reshapes arguments."""
    return moves_call_arguments(end) or any(wrapper.api in _RESHAPING for wrapper in end.wrappers)


def _loops_around(file: FileFacts, node: ast.AST) -> Iterator[_Loop]:
    """The loops of its function around a node, the outermost first: those that come to it in every turn."""
    found: list[_Loop] = []
    inner = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.For) and inner in outer.body:
            if any(isinstance(part, _LEAVING) for part in walk_nodes(outer)):
                break
            found.append((outer.iter, outer.target))
        elif isinstance(outer, ast.ListComp | ast.SetComp | ast.DictComp):
            if len(outer.generators) > 1 or outer.generators[0].ifs or inner is outer.generators[0]:
                break
            found.append((outer.generators[0].iter, outer.generators[0].target))
        elif isinstance(outer, _OUTSIDE | _ELSEWHERE):
            break
        inner = outer
    return reversed(found)


def _describe_iteration(number: int, bound: Mapping[ast.AST, Value]) -> str:
    """Which turn of a loop it is, by a name that says it."""
    for node, value in bound.items():
        if isinstance(node, ast.Name) and isinstance(value, Constant) and isinstance(value.value, str | int):
            return f"in the turn for `{node.id}` = {value.value!r}"
    return f"in turn {number} of the loop"
