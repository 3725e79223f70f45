"""Which process runs code: projects for several, conditions that ask which one it is, and what they guard."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeGuard

from shardlint.facts.project_objects import find_classes, sole_assigned_values
from shardlint.model.signatures import KEEPING
from shardlint.model.values import CallResult, Function, Place, Transformed, Value, options
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings, sole_returned_value
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from pathlib import Path

    from shardlint.model import Program
    from shardlint.model.project import Project

_DEPTH = 5
_BINDINGS = 6
INDEX = ("jax.process_index", "jax.host_id")
_INDEX_WORDS = ("process_index(", "host_id(")
_ASKING = ("jax.process_index", "jax.process_count", "jax.host_id", "jax.host_count", "multihost_utils")
_STARTING = ("jax.distributed.initialize", "distributed.initialize")
_INITIALIZING = "distributed.init"
_ASKING_CALLS = ("process_index", "host_id", "process_count", "local_devices")
SEVERAL_SAYS = ("distributed.initialize",)
"""Text without which, in the project, `several` does not say that it is initialized."""
ASKING_SAYS = (*(f"{name}(" for name in _ASKING_CALLS), "multihost_utils", _INITIALIZING)
"""Texts of which one stands in a file of which `reads_process_state` is true."""
# Names of numbers of processes, and of flags that say whether this is the first.
_RANK = compile_lazily(
    r"(?i)^_*(process_(index|idx|id)|host_(index|id)|(global_)?rank|proc_(id|index)|host|pid)$"
)
_FIRST = compile_lazily(
    r"(?i)^_*(is_)?(main|master|primary|lead|leader|chief|coordinator|first|rank_?(zero|0)|root)_?"
    r"(process|host|worker|rank|proc|controller)?$"
)
_SURE = compile_lazily(r"(?i)(process|host|rank|master|chief|coordinator|proc)")
# Names of decorators that keep all processes but one from a function: `rank_zero_only`, `on_main_process`.
_ONLY = compile_lazily(
    r"(?i)^(?=.*(process|host|rank|master|chief|proc))(?=.*(only|on_))(?=.*(main|master|primary|first|zero|0|chief|lead))"
)
Evidence = Literal["initialized", "asked", ""]


@dataclass(frozen=True)
class First:
    """A condition that is `truth` on one process only. Not `proven` where only a name tells."""

    truth: bool
    proven: bool


@dataclass(frozen=True)
class Guard:
    """Why code runs on one process only: the condition, and the same."""

    test: ast.expr
    proven: bool


def multi_process_evidence(program: Program, file: FileFacts) -> Evidence:
    """Return the evidence that a file belongs to a program for several processes.

    `initialized`: something that runs with it calls `jax.distributed.initialize`, for more than one process; `asked`:
    something asks which process this is, or how many there are. Comments and strings are no evidence. That jax itself
    asks tells nothing, where the project is jax. A notebook runs on one process.
    """
    project, path = program.project, file.path
    if file.source.in_cells:
        return ""

    def has_name(names: tuple[str, ...]) -> bool:
        own = project.root / "jax"
        return any(
            own not in one.parents and _is_in_code(project, one, name)
            for name in names
            for one in project.paths_naming(path, name)
        )

    if has_name(_STARTING) and not program.once(file, "starts one", lambda: _each_starts_one(program, path)):
        return "initialized"
    return "asked" if has_name(_ASKING) else ""


def _each_starts_one(program: Program, path: Path) -> bool:
    """Return whether all files that run with one and start `jax.distributed` start it for one process."""
    project = program.project
    paths = [one for name in _STARTING for one in project.paths_naming(path, name) if _is_in_code(project, one, name)]
    # Files are parsed for it, so the first that starts several ends it.
    return all((file := project.facts(one)) is not None and starts_one_process(file) for one in paths)


def runs_code_with(program: Program, file: FileFacts, name: str) -> bool:
    """Return whether code of a file, or of one that runs with it, holds a dotted name. Comments and strings do not
    count.
    """
    project = program.project
    return any(_is_in_code(project, one, name) for one in project.paths_naming(file.path, name))


def _is_in_code(project: Project, path: Path, name: str) -> bool:
    file = project.facts(path)
    return file is not None and file.remember_for_file(
        ("in code", name), lambda: _first_mention(file, name) is not None
    )


def _first_mention(file: FileFacts, name: str) -> ast.AST | None:
    """The first place where code of a file reads or imports a dotted name."""
    last = name.rpartition(".")[2]
    for node in file.find_mentions(last):
        if isinstance(node, ast.alias) or (_is_read(node) and file.source_text(node).endswith(name)):
            return node
    return next(iter(file.names_imported_from(last)), None)


def reads_process_state(file: FileFacts) -> bool:
    """Return whether a file itself reads the process index, the process count, or its local devices."""
    return process_question(file) is not None


def process_question(file: FileFacts) -> ast.AST | None:
    """The place where the code of a file asks which process this is, how many there are, or which devices are its own.

    None where only comments and strings speak of it, and in a notebook, which runs on one process.
    """
    if file.source.in_cells or not any(map(file.contains_text, ASKING_SAYS)):
        return None
    return file.remember_for_file(("process question", None), lambda: _process_question(file))


def _process_question(file: FileFacts) -> ast.AST | None:
    for name in _ASKING_CALLS:
        for node in file.find_mentions(name) if file.contains_text(f"{name}(") else ():
            call = file.parent(node)
            if isinstance(call, ast.Call) and call.func is node:
                return call
    if file.contains_text(_INITIALIZING) and not starts_one_process(file):
        start = _first_mention(file, _STARTING[-1])
        if start is not None:
            return start
    return _first_mention(file, "multihost_utils") if file.contains_text("multihost_utils") else None


def starts_one_process(file: FileFacts) -> bool:
    """Return whether each start of `jax.distributed` in a file is that of one process: `initialize(at,
    num_processes=1)`.
    """
    if not file.contains_text(_INITIALIZING):
        return False
    return file.remember_for_file(("starts one", None), lambda: _each_starts_one_process(file))


def _each_starts_one_process(file: FileFacts) -> bool:
    found = [
        call
        for node in file.find_mentions("initialize")
        if isinstance(call := file.parent(node), ast.Call)
        and call.func is node
        and file.source_text(node).endswith("distributed.initialize")
    ]
    return bool(found) and all(map(_initializes_one_process, found))


def _initializes_one_process(call: ast.Call) -> bool:
    number = next((one.value for one in call.keywords if one.arg == "num_processes"), None)
    number = call.args[1] if number is None and len(call.args) > 1 else number
    return isinstance(number, ast.Constant) and number.value == 1


def is_index(program: Program, place: Place) -> bool:
    """Return whether an expression is surely the index of this process."""
    found = options(program.evaluator.value(place))
    return bool(found) and all(isinstance(one, CallResult) and one.api in INDEX for one in found)


def evaluate_on_first_process(program: Program, place: Place, depth: int = 0) -> First | None:
    """Return the answer of a condition to the question if this is the one process; None if it is about something
    else.
    """
    node, file = place.node, place.file
    if depth > _DEPTH:
        return None
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            if _is_process_index(program, Place(file, operand)) is not None:
                return First(True, bool(_is_process_index(program, Place(file, operand))))
            found = evaluate_on_first_process(program, Place(file, operand), depth)
            return replace(found, truth=not found.truth) if found is not None else None
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for one, other in ((left, right), (right, left)):
                proven = _is_process_index(program, Place(file, one))
                if proven is not None and isinstance(other, ast.Constant) and isinstance(other.value, int):
                    truth = _compare_on_one_process(op, other.value, one is right)
                    return First(truth, proven) if truth is not None else None
            return None
        case ast.BoolOp(op=op, values=values):
            wanted = isinstance(op, ast.And)
            for value in values:
                found = evaluate_on_first_process(program, Place(file, value), depth + 1)
                if found is not None and found.truth is wanted:
                    return found
            return None
        case ast.Call(func=func):
            callee = program.evaluator.value(Place(file, func))
            return _answer_of_result(program, callee, depth) or (
                _answer_by_name(func) if not node.args else None
            )
        case ast.Name(id=name):
            return _answer_of_binding(program, place, name, depth) or _answer_by_name(node)
        case ast.Attribute():
            return _answer_of_member(program, file, node, depth) or _answer_by_name(node)
    return None


def may_ask_process(program: Program, place: Place) -> bool:
    """Return whether a condition reads a name bound in files that read the process index. Any other condition is
    skipped.
    """
    names = {
        one.attr if isinstance(one, ast.Attribute) else one.id for one in walk_nodes(place.node) if _is_read(one)
    }
    return bool(
        names
        & program.once(
            place.file, "names that ask for the process", lambda: _names_asking_process(program, place)
        )
    )


def _is_read(node: ast.AST) -> TypeGuard[ast.Attribute | ast.Name]:
    return isinstance(node, ast.Attribute | ast.Name)


def _names_asking_process(program: Program, place: Place) -> frozenset[str]:
    """The names that are bound with what says which process this is: a function that asks, and what is made of that."""
    project = program.project
    files = project.paths_holding(place.file.path, _INDEX_WORDS)
    return frozenset(name for one in files for name in project.names_bound_to_calls(one, _INDEX_WORDS))


def _is_process_index(program: Program, place: Place) -> bool | None:
    """Return whether an expression is the index of this process: True is sure, False is a guess by its name."""
    if is_index(program, place):
        return True
    node = place.node
    name = last_name(node)
    if isinstance(node, ast.Call):
        func = node.func
        name = last_name(func)
    return False if _RANK.match(name) and name not in ("host", "pid") else None


def _compare_on_one_process(op: ast.cmpop, number: int, turned: bool) -> bool | None:
    """Return the result of a comparison of the process index with a number on the one process; None if it varies."""
    match op:
        case ast.Eq():
            return True
        case ast.NotEq():
            return False
        case ast.Gt():
            return None if turned else (False if number == 0 else None)
        case ast.Lt():
            return (False if number == 0 else None) if turned else (True if number == 1 else None)
        case ast.GtE():
            return None if turned else (False if number == 1 else None)
        case ast.LtE():
            return None if turned else (True if number == 0 else None)
    return None


def _answer_by_name(node: ast.AST) -> First | None:
    """By its name: `is_main_process`."""
    name = last_name(node)
    if _FIRST.match(name) and _SURE.search(name):
        return First(True, False)
    return None


def _answer_of_result(program: Program, value: Value, depth: int) -> First | None:
    """Return the answer in the result of a function of the project, also with arguments bound by
    `functools.partial`.
    """
    while isinstance(value, Transformed) and (value.api.name in KEEPING or value.api.name == "functools.partial"):
        value = value.inner
    if not isinstance(value, Function):
        return None
    file = value.place.file
    returned = sole_returned_value(file, value.node)
    return evaluate_on_first_process(program, Place(file, returned), depth + 1) if returned is not None else None


def _answer_of_binding(program: Program, place: Place, name: str, depth: int) -> First | None:
    """Return the answer in the value bound to a name, in this file or another of the project."""
    bindings, _ = lookup_bindings(place.file, place.node, name)
    if len(bindings) == 1 and bindings[0].kind in ("assign", "walrus") and bindings[0].value is not None:
        value = bindings[0].value
        return evaluate_on_first_process(program, Place(place.file, value), depth + 1)
    values = [one.value for one in bindings if one.kind == "assign" and one.value is not None]
    if not 1 < len(bindings) == len(values) <= _BINDINGS:
        return None
    set_to = [one for one in values if not (isinstance(one, ast.Constant) and not one.value)]
    if 0 < len(set_to) < len(values) and all(
        _is_set_by_one_process(program, place.file, one, depth + 1) for one in set_to
    ):
        return First(True, False)
    return None


def _is_set_by_one_process(program: Program, file: FileFacts, value: ast.expr, depth: int) -> bool:
    """Return whether a flag is set by one process alone: `if rank == 0: tracking = True`, if it is false otherwise."""
    inner: ast.AST = file.statement(value)
    for outer in file.ancestors(inner):
        if isinstance(outer, ast.If) and (inner in outer.body or inner in outer.orelse):
            found = evaluate_on_first_process(program, Place(file, outer.test), depth)
            if found is not None and found.truth is (inner in outer.body):
                return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return False
        inner = outer
    return False


def _answer_of_member(program: Program, file: FileFacts, node: ast.Attribute, depth: int) -> First | None:
    """Return the answer in a property or an attribute of an object whose class is visible."""
    for candidate in find_classes(program, Place(file, node.value)):
        inside = candidate.place.file
        bound = inside.bindings(inside.scope(candidate.node), node.attr)
        if bound and isinstance(bound[0].node, ast.FunctionDef):
            return _answer_of_result(program, Function(Place(inside, bound[0].node)), depth)
        for value in sole_assigned_values(inside, candidate.node, node.attr):
            return evaluate_on_first_process(program, Place(inside, value), depth + 1)
    return None


def find_process_guard(program: Program, file: FileFacts, node: ast.AST) -> Guard | None:
    """The condition that keeps all processes but one from a place, within its function."""
    inner: ast.AST = node
    for outer in file.ancestors(node):
        test: ast.expr | None = None
        wanted = True
        match outer:
            case ast.If(test=test, body=body):
                wanted = inner in body
            case ast.IfExp(test=test, body=body):
                wanted = inner is body
            case ast.BoolOp(op=op, values=values) if inner in values:
                for value in values[: values.index(inner)]:
                    found = evaluate_on_first_process(program, Place(file, value))
                    if found is not None and found.truth is isinstance(op, ast.And):
                        return Guard(value, found.proven)
        if test is not None and inner is not test:
            found = evaluate_on_first_process(program, Place(file, test))
            if found is not None and found.truth is wanted:
                return Guard(test, found.proven)
        if isinstance(inner, ast.stmt):
            left = _find_early_return(program, file, outer, inner)
            if left is not None:
                return left
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return None
        inner = outer
    return None


def find_guarding_decorator(
    program: Program, file: FileFacts, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> Guard | None:
    """The decorator that lets one process alone run a function."""
    for decorator in node.decorator_list:
        maker = decorator.func if isinstance(decorator, ast.Call) else decorator
        found = options(program.evaluator.value(Place(file, maker)))
        made = [one for one in found if isinstance(one, Function) and isinstance(one.node, ast.FunctionDef)]
        if made and all(_runs_on_one_process(program, one) for one in made) and len(made) == len(found):
            return Guard(decorator, all(_runs_on_one_process(program, one) == "proven" for one in made))
        name = last_name(maker)
        if not made and _ONLY.match(name):
            return Guard(decorator, False)
    return None


def _runs_on_one_process(program: Program, function: Function) -> Literal["proven", "named", ""]:
    """Return how surely a decorator's wrapper calls its function on one process alone; "" if it does not."""
    file, node = function.place.file, function.node
    given = {one.arg for part in walk_nodes(node) if isinstance(part, ast.arguments) for one in part.args}
    guards = [
        find_process_guard(program, file, call)
        for call in walk_nodes(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in given
    ]
    if not guards or None in guards:
        return ""
    return "proven" if all(one is not None and one.proven for one in guards) else "named"


def _find_early_return(program: Program, file: FileFacts, outer: ast.AST, inner: ast.stmt) -> Guard | None:
    """`if process_index() != 0: return` before a statement of the same block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(outer, name, None)
        if not isinstance(block, list) or inner not in block:
            continue
        for before in block[: block.index(inner)]:
            if isinstance(before, ast.If) and not before.orelse and leaves_at_end(before.body):
                found = evaluate_on_first_process(program, Place(file, before.test))
                if found is not None and not found.truth:
                    return Guard(before.test, found.proven)
    return None


def leaves_at_end(block: list[ast.stmt]) -> bool:
    """Return whether a block ends by leaving the enclosing code."""
    return isinstance(block[-1], ast.Return | ast.Continue | ast.Break)
