"""Code that starts the backend of jax before a place runs: earlier statements, imports, defaults, class bodies,
decorators.

Only what surely runs counts: no branch that may not be taken, no loop, nothing after a way out of the function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.values import Api, ClassValue, Function, ModuleValue, Place, Transformed, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import child_nodes, walk_nodes

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 5
_FILES = 60
STARTS = frozenset(
    """
jax.devices jax.local_devices jax.device_count jax.local_device_count jax.process_index jax.process_count
jax.process_indices jax.default_backend jax.device_put jax.device_put_replicated jax.device_put_sharded jax.make_mesh
jax.host_id jax.host_count jax.live_arrays jax.random.PRNGKey jax.random.key jax.random.split jax.random.normal
jax.random.uniform jax.make_array_from_callback jax.make_array_from_process_local_data
jax.experimental.mesh_utils.create_device_mesh jax.experimental.mesh_utils.create_hybrid_device_mesh
jax.experimental.multihost_utils.sync_global_devices jax.experimental.multihost_utils.process_allgather
jax.experimental.multihost_utils.broadcast_one_to_all jax.lib.xla_bridge.get_backend
jax.extend.backend.get_backend jax.lib.xla_bridge.device_count
""".split()
)
_ARRAYS = frozenset(
    f"jax.numpy.{name}"
    for name in """
array asarray zeros ones full empty eye identity arange linspace float32 float16 bfloat16 int32 int8 uint8 uint32
zeros_like ones_like full_like stack concatenate sqrt exp log tri tril triu
""".split()
)
_RUN_AT_ONCE = (ast.ClassDef, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)
_COMPILED = (*JIT_WRAPPERS, "jax.pmap")


@dataclass(frozen=True)
class Started:
    """Start of the backend: the call, and the expressions of the files that lead to it, the outermost first."""

    place: Place
    through: tuple[Place, ...] = ()


@dataclass(frozen=True)
class _Import:
    """A file of the project that is imported, and the expressions and statements that lead to it."""

    file: FileFacts
    through: tuple[Place, ...]


_Event = Started | _Import


class Backend:
    """Asks what surely runs before a place. One for each question: it remembers the files it looked into."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[FileFacts] = set()

    def find_start_before(self, place: Place) -> Started | None:
        """The first call that has started the backend when the statement of a place runs."""
        for event in _ImportRun(self.program).events_before(place):
            found = self._follow_event(event)
            if found is not None:
                return found
        return None

    def _follow_event(self, event: _Event) -> Started | None:
        if isinstance(event, Started):
            return event
        if event.file in self.seen or len(self.seen) > _FILES:
            return None
        self.seen.add(event.file)
        for inner in self._events_of_file(event.file):
            found = self._follow_event(inner)
            if found is not None:
                return Started(found.place, (*event.through, *found.through))
        return None

    def _events_of_file(self, file: FileFacts) -> tuple[_Event, ...]:
        """Return the relevant events of importing a file, computed once for all questions."""
        return self.program.answer_for_node(
            ("events", file.tree), lambda: tuple(_ImportRun(self.program).events_of_import(file))
        )


class _ImportRun:
    """The imports that surely run, in order, until a call starts the backend."""

    def __init__(self, program: Program) -> None:
        self.evaluator = program.evaluator
        self.linker = program.evaluator.linker
        self.seen: set[ast.AST] = set()

    def events_of_import(self, file: FileFacts) -> Iterator[_Event]:
        """Return the events of importing a file."""
        return _until_started(self._events_of_block(file, file.module.body_statements, 0))

    def events_before(self, place: Place) -> Iterator[_Event]:
        """Return the events before the statement of a place, and in the arguments of a call."""
        return _until_started(chain(self._events_around(place), self._events_in_arguments(place)))

    def _events_around(self, place: Place) -> Iterator[_Event]:
        file = place.file
        inner: ast.AST = file.statement(place.node)
        outer = file.parent(inner)
        blocks: list[list[ast.stmt]] = []
        while outer is not None:
            blocks.append(list(_earlier_statements(file, outer, inner)))
            if isinstance(outer, ast.If | ast.While) and inner is not outer.test:
                blocks[-1].insert(0, ast.Expr(outer.test))
            inner, outer = outer, file.parent(outer)
        for statements in reversed(blocks):
            yield from self._events_of_block(file, statements, 0)

    def _events_in_arguments(self, place: Place) -> Iterator[_Event]:
        """Yield the events in the arguments of the very call."""
        node = place.node
        if isinstance(node, ast.Call):
            yield from self._events_of_expressions(
                place.file, [*node.args, *(one.value for one in node.keywords)], 0
            )

    def _events_of_block(
        self, file: FileFacts, statements: Iterable[ast.stmt], depth: int
    ) -> Iterator[_Event]:
        block = list(statements)
        for index, statement in enumerate(block):
            yield from self._events_of_statement(file, statement, depth)
            if isinstance(statement, ast.If | ast.Match):
                found = self._start_on_each_path(file, block[index:] if depth else [statement], depth)
                if isinstance(found, Started):
                    yield found
                    return
            if depth and _may_leave(statement):
                return

    def _start_on_each_path(self, file: FileFacts, block: list[ast.stmt], depth: int) -> Started | str:
        """Return the start of the backend that every path through a block has: "raises" if every path raises, "" if
        some have none.

        The ways that raise come to nothing after it.
        """
        left: Started | str = "raises"  # by the ways that have returned
        for statement in block:
            if isinstance(statement, ast.Raise):
                return left
            ways: list[list[ast.stmt]] = []
            if isinstance(statement, ast.If):
                ways = [statement.body, statement.orelse]
            elif isinstance(statement, ast.Match):
                ways = [case.body for case in statement.cases]
                if not _catches_all(statement):
                    ways.append([])
            else:
                events = self._events_of_statement(file, statement, depth)
                started = next((one for one in events if isinstance(one, Started)), None)
                if started is not None:
                    return started
                if _may_leave(statement):
                    return ""
                continue
            found: list[Started | str] = []
            for way in ways:
                before = set(self.seen)  # each way may call the same functions
                found.append(self._start_on_each_path(file, way, depth) if way else "")
                self.seen = before
            going_on = [way for way, one in zip(ways, found, strict=True) if one == ""]
            starts = next((one for one in found if isinstance(one, Started)), None)
            left = starts or left
            if not going_on:
                return left
            if any(_may_leave(inner) for way in going_on for inner in way):
                return ""
        return ""

    def _events_of_statement(self, file: FileFacts, statement: ast.stmt, depth: int) -> Iterator[_Event]:
        match statement:
            case ast.Import() | ast.ImportFrom():
                for module in self._imported_modules(file, statement):
                    yield _Import(module, (Place(file, statement),))
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                args = statement.args
                values = [*args.defaults, *(one for one in args.kw_defaults if one is not None)]
                values = [*statement.decorator_list, *values]
            case ast.ClassDef():
                values = [*statement.decorator_list, *statement.bases]
            case ast.If(test=test) | ast.While(test=test):
                values = [test]
            case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
                values = [iterated]
            case ast.With() | ast.AsyncWith():
                values = [one.context_expr for one in statement.items]
            case ast.Try() | ast.TryStar():
                values = []
            case ast.AnnAssign(value=value):
                values = [value] if value is not None else []
            case _:
                values = [child for child in child_nodes(statement) if isinstance(child, ast.expr)]
        yield from self._events_of_expressions(file, values, depth)
        if isinstance(statement, _RUN_AT_ONCE):
            yield from self._events_of_block(file, statement.body, depth)

    def _imported_modules(
        self, file: FileFacts, statement: ast.Import | ast.ImportFrom
    ) -> Iterator[FileFacts]:
        if isinstance(statement, ast.ImportFrom):
            module = self.linker.imported_module(file, statement)
            if isinstance(module, ModuleValue):
                yield module.file
            for alias in statement.names:
                name = f"{statement.module}.{alias.name}" if statement.module else alias.name
                inner = self.linker.find_module(name, file) if not statement.level else None
                if isinstance(inner, ModuleValue):
                    yield inner.file
            return
        for alias in statement.names:
            found = self.linker.find_module(alias.name, file)
            if isinstance(found, ModuleValue):
                yield found.file

    def _events_of_expressions(
        self, file: FileFacts, nodes: Iterable[ast.expr], depth: int
    ) -> Iterator[_Event]:
        for node in nodes:
            for call in _evaluated_calls(node):
                yield from self._events_of_call(file, call, depth)

    def _events_of_call(self, file: FileFacts, call: ast.Call, depth: int) -> Iterator[_Event]:
        callees = options(self.evaluator.value(Place(file, call.func)))
        if len(callees) == 1:
            yield from self._events_of_callee(file, call, callees[0], depth)
            return
        first: Started | None = None
        for callee in callees:
            events = self._events_of_callee(file, call, callee, depth)
            started = next((one for one in events if isinstance(one, Started)), None)
            if started is None:
                return
            first = first or started
        if first is not None:
            yield first

    def _events_of_callee(
        self, file: FileFacts, call: ast.Call, callee: object, depth: int
    ) -> Iterator[_Event]:
        place = Place(file, call)
        if isinstance(callee, Api):
            if callee.name in STARTS or callee.name in _ARRAYS:
                yield Started(place)
            return
        if isinstance(callee, Transformed) and callee.api.name in _COMPILED:
            yield Started(place)
            return
        function = self._called_function(callee)
        if function is None and isinstance(callee, ClassValue):
            for event in self._default_factory_events(callee, call, depth):
                yield replace(event, through=(place, *event.through))
            function = self._called_function(callee, "__post_init__") if _is_dataclass(callee) else None
        if function is None or depth >= _DEPTH or function.node in self.seen:
            return
        if isinstance(function.node, ast.Lambda | ast.AsyncFunctionDef):
            return
        if _is_body_deferred(function.node, file):
            return
        self.seen.add(function.node)
        for event in self._events_of_block(function.place.file, function.node.body, depth + 1):
            yield replace(event, through=(place, *event.through))

    def _default_factory_events(self, cls: ClassValue, call: ast.Call, depth: int) -> Iterator[_Event]:
        """Yield the events of the `default_factory` of each dataclass field that a call does not give."""
        inside, node = cls.place.file, cls.node
        if not _is_dataclass(cls) or not isinstance(node, ast.ClassDef) or depth >= _DEPTH:
            return
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
        named = {one.arg for one in call.keywords}
        if None in named or any(isinstance(one, ast.Starred) for one in call.args):
            return
        for field in fields[len(call.args) :]:
            made = field.value
            if not isinstance(field.target, ast.Name) or field.target.id in named or not isinstance(made, ast.Call):
                continue
            factory = next((one.value for one in made.keywords if one.arg == "default_factory"), None)
            if isinstance(factory, ast.Lambda):
                yield from self._events_of_expressions(inside, [factory.body], depth + 1)
            elif factory is not None:
                found = options(self.evaluator.value(Place(inside, factory)))
                names = [one.name if isinstance(one, Api) else "" for one in found]
                if names and all(name in STARTS for name in names):
                    yield Started(Place(inside, factory))

    def _called_function(self, callee: object, name: str = "__init__") -> Function | None:
        if isinstance(callee, Function):
            return callee
        if isinstance(callee, ClassValue):
            for one in self.evaluator.project_ancestors(callee):
                inside = one.place.file
                bound = inside.bindings(inside.scope(one.node), name)
                if bound and isinstance(bound[0].node, ast.FunctionDef):
                    return Function(Place(inside, bound[0].node), True, one)
        return None


def _is_dataclass(cls: ClassValue) -> bool:
    decorators = getattr(cls.node, "decorator_list", ())
    return any("dataclass" in cls.place.file.source_text(one) for one in decorators)


def _until_started(events: Iterable[_Event]) -> Iterator[_Event]:
    for event in events:
        yield event
        if isinstance(event, Started):
            return


def _is_body_deferred(node: ast.FunctionDef, file: FileFacts) -> bool:
    """Return whether a call of it does not run its body: a generator, or a function that a decorator may delay."""
    return any(isinstance(one, ast.Yield | ast.YieldFrom) for one in walk_nodes(node)) or bool(
        node.decorator_list
    )


def _earlier_statements(file: FileFacts, outer: ast.AST, inner: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a block before one of its own."""
    for name, before in file.statements_before(outer, inner):
        yield from before
        if name == "finalbody" or (name == "orelse" and isinstance(outer, ast.Try)):
            yield from outer.body  # type: ignore[attr-defined]


def _may_leave(statement: ast.stmt) -> bool:
    """Return whether the code after a statement may not be reached, though nothing is raised."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(isinstance(part, ast.Return) for part in walk_nodes(statement))


def _catches_all(statement: ast.Match) -> bool:
    last = statement.cases[-1]
    return last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None


def _evaluated_calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that evaluating an expression surely makes, the inner ones first."""
    match node:
        case ast.Lambda() | ast.GeneratorExp():
            return
        case ast.ListComp() | ast.SetComp() | ast.DictComp():
            yield from _evaluated_calls(node.generators[0].iter)
            return
        case ast.IfExp(test=test):
            yield from _evaluated_calls(test)
            return
        case ast.BoolOp(values=values):
            yield from _evaluated_calls(values[0])
            return
    for child in child_nodes(node):
        yield from _evaluated_calls(child)
    if isinstance(node, ast.Call):
        yield node
