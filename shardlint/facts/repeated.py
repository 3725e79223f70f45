"""Places that are passed again and again: loops around an expression, and around the calls of a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.function_uses import FunctionUse
from shardlint.model.values import ClassValue, Place
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes

Loop = ast.For | ast.AsyncFor | ast.While
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_ENDS = (ast.Return, ast.Break, ast.Raise)
_DEPTH = 3
_FEW = 3
_ONCE = compile_lazily(r"_*(init|set_?up|build|create|make|load|restore|save|prepare|reset)")

SETUP_NAME = compile_lazily(
    r"(?i)(?:^|_)(?:init\w*|set_?up|main|test|build|create|make|load|restore|save|run|train|fit|bench\w*|example|demo|"
    r"compile|warm_?up|reset|prepare|start|construct|convert|export|experiment|launch|from|initial\w*|parse|profile|plot|"
    r"check|verify|validate)(?:_|$)|^Make"
)
"""Names of functions that run once or a few times."""


def loop_around(file: FileFacts, node: ast.AST) -> Loop | None:
    """The innermost loop of the same function that passes a place at every turn."""
    below = node
    for outer in file.ancestors(node):
        if isinstance(outer, _FUNCTIONS):
            return None
        if (
            isinstance(outer, ast.For | ast.AsyncFor)
            and below in outer.body
            and not _is_short_loop(outer.iter)
        ):
            return outer
        if isinstance(outer, ast.While) and (below in outer.body or below is outer.test):
            return outer
        below = outer
    return None


def _is_short_loop(node: ast.expr) -> bool:
    """A loop over a few things that are written out: configurations, most often."""
    match node:
        case ast.Tuple() | ast.List() | ast.Dict() | ast.Set():
            return True
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as count)]):
            return count <= _FEW
        case ast.Call(func=ast.Name(id="zip" | "enumerate"), args=[inner, *_]):
            return _is_short_loop(inner)
        case ast.Call(func=ast.Attribute(attr="items" | "values" | "keys")):
            return True
    return False


def once_only(file: FileFacts, node: ast.AST, loop: Loop) -> bool:
    """Return whether a place in a loop runs at most once: the loop ends after it, or a test admits it only then."""
    below = node
    for outer in file.ancestors(node):
        if isinstance(below, ast.stmt):
            block = next((one for one in _inner_blocks(outer) if below in one), [])
            if any(isinstance(later, _ENDS) for later in block[block.index(below) :] if block):
                return True
        if outer is loop:
            return False
        if isinstance(outer, ast.If | ast.IfExp) and is_first_time_test(outer) and not _stays_none(file, outer):
            return True
        below = outer
    return False


def runs_rarely(file: FileFacts, node: ast.AST, loop: Loop) -> bool:
    """Return whether a test around a place in a loop lets every n-th iteration run it: `if step % n == 0`."""
    return any(
        isinstance(outer, ast.If)
        and loop in file.ancestors(outer)
        and any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod) for one in walk_nodes(outer.test))
        for outer in file.ancestors(node)
    )


def _inner_blocks(node: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [one for one in found if isinstance(one, list)]


def is_meant_to_run_once(file: FileFacts, node: ast.AST, loop: Loop) -> bool:
    """Return whether a test around a place in a loop was intended to run it once, and tests a name that stays None."""
    for outer in file.ancestors(node):
        if outer is loop:
            return False
        if isinstance(outer, ast.If) and _stays_none(file, outer):
            return True
    return False


def _stays_none(file: FileFacts, branch: ast.If | ast.IfExp) -> bool:
    """`step is None` of a name that holds nothing but None: the branch is taken in each turn."""
    match branch.test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            function = file.evaluation_scope(branch).enclosing_function()
            if function is None or not isinstance(function.node, ast.FunctionDef):
                return False
            stores = [
                one
                for one in walk_nodes(function.node)
                if (isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load))
                or (isinstance(one, ast.arg) and one.arg == name)
                or (isinstance(one, ast.Global | ast.Nonlocal) and name in one.names)
            ]
            parents = [file.parent(one) for one in stores]
            return len(stores) > 0 and all(
                isinstance(one, ast.Assign)
                and isinstance(one.value, ast.Constant)
                and one.value.value is None
                for one in parents
            )
    return False


def is_first_time_test(branch: ast.If | ast.IfExp) -> bool:
    """`f is None`, `key not in table`, `step == 0`, `first`, `not ready` where the branch sets it."""
    for node in walk_nodes(branch.test):
        match node:
            case ast.Compare(ops=[ast.Is() | ast.NotIn()]):
                return True
            case ast.Compare(left=ast.Name() | ast.Attribute(), ops=[ast.Eq()], comparators=[ast.Constant()]):
                return True
            case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Attribute() as flag):
                said = ast.unparse(flag)
                if any(ast.unparse(one) == said for one in _assigned_targets(branch)):
                    return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if "first" in name or "init" in name:
                return True
    return False


def _assigned_targets(branch: ast.AST) -> list[ast.expr]:
    return [
        one
        for one in walk_nodes(branch)
        if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Store)
    ]


def names_bound_in(loop: Loop, apart: ast.AST) -> set[str]:
    """The names that a turn of a loop binds."""
    names = {node.id for node in walk_nodes(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    definitions = {
        node.name
        for node in walk_nodes(loop)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not apart
    }
    return names | definitions


def called_in_a_loop(program: Program, file: FileFacts, function: ast.AST, depth: int = 0) -> Place | None:
    """A call of a function that stands in a loop, or in a function that is called in one."""
    if _is_result_cached(function) or depth > _DEPTH:
        return None
    further = []
    ends = [*program.flow.ends(file, function).found]
    for where, method in _overridden_methods(program, file, function):
        ends += program.flow.in_sight(where, method).found
    for end in ends:
        call = end.place.node
        if end.kind != "called" or end.wrappers or not isinstance(call, ast.Call):
            continue
        if is_test(end.place.file, call):
            continue
        loop = loop_around(end.place.file, call)
        if loop is not None and not once_only(end.place.file, call, loop):
            return end.place
        around = end.place.file.evaluation_scope(call).enclosing_function()
        if loop is None and around is not None and around.node is not function:
            further.append((end.place.file, around.node))
    for where, node in further:
        found = called_in_a_loop(program, where, node, depth + 1)
        if found is not None:
            return found
    return None


def is_called_few_times(program: Program, file: FileFacts, function: ast.AST, depth: int = 0) -> bool:
    """Return whether no call of a function is repeated: at module level, or in functions that run once.

    Of a function of a package there is one call, because its users may call it too.
    """
    ends = program.flow.ends(file, function)
    if ends.cut or not ends.found or (len(ends.found) > 1 and not program.project.is_application):
        return False
    return all(_is_single_call(program, end, depth) for end in ends.found)


def _is_single_call(program: Program, end: FunctionUse, depth: int) -> bool:
    """True for a call outside of loops and comprehensions, in code that runs once by its name or its own calls."""
    file, call = end.place.file, end.place.node
    if end.kind != "called" or end.wrappers or loop_around(file, call) is not None:
        return False
    if any(isinstance(one, ast.comprehension | ast.ListComp | ast.DictComp) for one in file.ancestors(call)):
        return False
    around = file.evaluation_scope(call).enclosing_function()
    if around is None or SETUP_NAME.search(around.name):
        return True
    if not program.project.is_application:
        return False
    return depth < _DEPTH and is_called_few_times(program, file, around.node, depth + 1)


def _overridden_methods(
    program: Program, file: FileFacts, function: ast.AST
) -> Iterator[tuple[FileFacts, ast.FunctionDef]]:
    """The methods of base classes that a method takes the place of: a loop of the base calls them by `self`."""
    cls = file.parent(function)
    if not isinstance(function, ast.FunctionDef) or not isinstance(cls, ast.ClassDef) or not cls.bases:
        return
    if _ONCE.match(function.name):
        return  # a loop over trials, each of which sets up its own
    for base in program.evaluator.project_ancestors(ClassValue(Place(file, cls)))[1:]:
        for node in base.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == function.name:
                yield base.place.file, node


def _is_result_cached(function: ast.AST) -> bool:
    """Return whether the result of a function is cached: `lru_cache`, `cache`, `cached_property`."""
    return any("cache" in ast.dump(one).lower() for one in getattr(function, "decorator_list", []))


def is_test(file: FileFacts, node: ast.AST) -> bool:
    """Return whether a place is in a test or benchmark."""
    name = file.path.name
    if name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py":
        return True
    return is_benchmark(file, node) or _is_in_function_named(file, node, "test_")


def is_benchmark(file: FileFacts, node: ast.AST) -> bool:
    """Return whether a place is in a benchmark."""
    name = file.path.name
    return name.startswith("bench") or name.endswith("_benchmark.py") or _is_in_function_named(file, node, "bench")


def _is_in_function_named(file: FileFacts, node: ast.AST, beginning: str) -> bool:
    scope = file.evaluation_scope(node) if not isinstance(node, ast.FunctionDef) else file.scope(node)
    return any(
        isinstance(outer.node, ast.FunctionDef) and outer.node.name.startswith(beginning)
        for outer in scope.enclosing_scopes()
    )
