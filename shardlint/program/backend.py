"""What starts the backend of jax before a place runs: earlier statements, imports, defaults, class bodies, decorators.

Only what surely runs counts: no branch that may not be taken, no loop, nothing after a way out of the function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shardlint.facts import FileFacts
from shardlint.program.evaluate import Evaluator
from shardlint.program.linking import Linker
from shardlint.program.values import Api, ClassValue, Function, Made, ModuleValue, Place, Wrapped, options

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
_JITS = ("jax.jit", "jax.experimental.pjit.pjit", "jax.pmap", "equinox.filter_jit", "flax.nnx.jit")


@dataclass(frozen=True)
class Started:
    """What starts the backend: the call, and the expressions of the files that lead to it, the outermost first."""

    place: Place
    through: tuple[Place, ...] = ()


class Backend:
    """Asks what surely runs before a place. One for each question: it remembers what it looked into."""

    def __init__(self, evaluator: Evaluator, linker: Linker) -> None:
        self.evaluator = evaluator
        self.linker = linker
        self.seen: set[object] = set()

    def before(self, place: Place) -> Started | None:
        """The first call that has started the backend when the statement of a place runs."""
        file = place.file
        inner: ast.AST = file.statement(place.node)
        outer = file.parent(inner)
        blocks: list[list[ast.stmt]] = []
        while outer is not None:
            blocks.append(list(_earlier(outer, inner)))
            if isinstance(outer, ast.If | ast.While) and inner is not outer.test:
                blocks[-1].insert(0, ast.Expr(outer.test))
            inner, outer = outer, file.parent(outer)
        for statements in reversed(blocks):
            found = self._block(file, statements, 0)
            if found is not None:
                return found
        return self._within(place)

    def _within(self, place: Place) -> Started | None:
        """What the arguments of the very call start."""
        node = place.node
        if isinstance(node, ast.Call):
            return self._expressions(place.file, [*node.args, *(one.value for one in node.keywords)], 0)
        return None

    def importing(self, file: FileFacts) -> Started | None:
        """What the import of a file starts."""
        if file in self.seen or len(self.seen) > _FILES:
            return None
        self.seen.add(file)
        return self._block(file, file.module.body, 0)

    def _block(self, file: FileFacts, statements: Iterable[ast.stmt], depth: int) -> Started | None:
        for statement in statements:
            found = self._statement(file, statement, depth)
            if found is not None:
                return found
            if depth and _may_leave(statement):
                return None
        return None

    def _statement(self, file: FileFacts, statement: ast.stmt, depth: int) -> Started | None:
        match statement:
            case ast.Import() | ast.ImportFrom():
                return self._import(file, statement)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                args = statement.args
                defaults = [*args.defaults, *(one for one in args.kw_defaults if one is not None)]
                return self._expressions(file, [*statement.decorator_list, *defaults], depth)
            case ast.ClassDef():
                head = self._expressions(file, [*statement.decorator_list, *statement.bases], depth)
                return head or self._block(file, statement.body, depth)
            case ast.If(test=test) | ast.While(test=test):
                return self._expressions(file, [test], depth)
            case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
                return self._expressions(file, [iterated], depth)
            case ast.With() | ast.AsyncWith():
                head = self._expressions(file, [one.context_expr for one in statement.items], depth)
                return head or self._block(file, statement.body, depth)
            case ast.Try() | ast.TryStar():
                return self._block(file, statement.body, depth)
        values = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
        if isinstance(statement, ast.AnnAssign):
            values = [statement.value] if statement.value is not None else []
        return self._expressions(file, values, depth)

    def _import(self, file: FileFacts, statement: ast.Import | ast.ImportFrom) -> Started | None:
        for module in self._modules(file, statement):
            found = self.importing(module)
            if found is not None:
                return Started(found.place, (Place(file, statement), *found.through))
        return None

    def _modules(self, file: FileFacts, statement: ast.Import | ast.ImportFrom) -> Iterator[FileFacts]:
        if isinstance(statement, ast.ImportFrom):
            module = self.linker.imported(file, statement)
            if isinstance(module, ModuleValue):
                yield module.file
            for alias in statement.names:
                name = f"{statement.module}.{alias.name}" if statement.module else alias.name
                inner = self.linker.module(name, file) if not statement.level else None
                if isinstance(inner, ModuleValue):
                    yield inner.file
            return
        for alias in statement.names:
            found = self.linker.module(alias.name, file)
            if isinstance(found, ModuleValue):
                yield found.file

    def _expressions(self, file: FileFacts, nodes: Iterable[ast.expr], depth: int) -> Started | None:
        for node in nodes:
            for call in _calls(node):
                found = self._call(file, call, depth)
                if found is not None:
                    return found
        return None

    def _call(self, file: FileFacts, call: ast.Call, depth: int) -> Started | None:
        place = Place(file, call)
        callees = options(self.evaluator.value(Place(file, call.func)))
        if len(callees) != 1:
            return None
        callee = callees[0]
        if isinstance(callee, Api):
            return Started(place) if callee.name in STARTS or callee.name in _ARRAYS else None
        if isinstance(callee, Wrapped) and callee.api.name in _JITS:
            return Started(place)
        if isinstance(callee, Made) and callee.api == "numpy.vectorize":
            return None
        function = self._function(callee)
        if function is None or depth >= _DEPTH or function.node in self.seen:
            return None
        if isinstance(function.node, ast.Lambda | ast.AsyncFunctionDef):
            return None
        if _deferred(function.node, file):
            return None
        self.seen.add(function.node)
        found = self._block(function.place.file, function.node.body, depth + 1)
        return Started(found.place, (place, *found.through)) if found is not None else None

    def _function(self, callee: object) -> Function | None:
        if isinstance(callee, Function):
            return callee
        if isinstance(callee, ClassValue):
            for one in self.evaluator.lineage(callee):
                inside = one.place.file
                bound = inside.bindings(inside.scope(one.node), "__init__")
                if bound and isinstance(bound[0].node, ast.FunctionDef):
                    return Function(Place(inside, bound[0].node), True, one)
        return None


def _deferred(node: ast.FunctionDef, file: FileFacts) -> bool:
    """Whether calling it does not run its body: a generator, or one that a decorator may hold back."""
    return any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node)) or bool(
        node.decorator_list
    )


def _earlier(outer: ast.AST, inner: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a block before one of its own."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(outer, name, None)
        if isinstance(block, list) and inner in block:
            yield from block[: block.index(inner)]
            if name == "finalbody" or (name == "orelse" and isinstance(outer, ast.Try)):
                yield from outer.body  # type: ignore[attr-defined]


def _may_leave(statement: ast.stmt) -> bool:
    """Whether what follows a statement may not be reached, though nothing is raised."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(isinstance(part, ast.Return) for part in ast.walk(statement))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that evaluating an expression surely makes, the inner ones first."""
    match node:
        case ast.Lambda() | ast.GeneratorExp():
            return
        case ast.ListComp() | ast.SetComp() | ast.DictComp():
            yield from _calls(node.generators[0].iter)
            return
        case ast.IfExp(test=test):
            yield from _calls(test)
            return
        case ast.BoolOp(values=values):
            yield from _calls(values[0])
            return
    for child in ast.iter_child_nodes(node):
        yield from _calls(child)
    if isinstance(node, ast.Call):
        yield node
