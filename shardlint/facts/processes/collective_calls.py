"""Calls that all processes must make together, also through functions of the project."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.facts.processes.all_devices import sharding_of_all
from shardlint.facts.processes.communication import call_communicates
from shardlint.facts.processes.global_arrays import METHODS, GlobalArrays
from shardlint.facts.project_objects import evaluate_held_member, find_project_objects, sole_assigned_values
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.values import Api, CallResult, ClassValue, Function, Place, Transformed, options
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 4
_UTILS = "jax.experimental.multihost_utils."
COLLECTIVES = frozenset(
    f"{_UTILS}{name}"
    for name in (
        "process_allgather",
        "broadcast_one_to_all",
        "sync_global_devices",
        "assert_equal",
        "reached_preemption_sync_point",
    )
) | {"flax.training.checkpoints.save_checkpoint_multiprocess"}
_SAVERS = compile_lazily(r"^orbax\.checkpoint\..*(Checkpointer|CheckpointManager)$")
_NAMED_SAVER = compile_lazily(r"(?i)(checkpoint_?(manager|mgr)|checkpointer|ckpt_?(manager|mngr|mgr|er)|ckptr)$")
FLAX_SAVE = "flax.training.checkpoints.save_checkpoint"
"""Waits for all processes where flax saves by Orbax: since 0.6.11, unless its configuration says otherwise."""
_SAVING = ("save", "restore", "wait_until_finished")


@dataclass(frozen=True)
class CollectiveCall:
    """A call that all processes must make: `name`, where it stands, and the calls that lead to it, the first first.

    Not `sure` where only a name says what it is, or where it may be another function that is called.
    """

    name: str
    place: Place
    through: tuple[Place, ...] = ()
    sure: bool = True
    why: str = ""
    computes: bool = False
    """It is a computation with arrays of which every process holds a part."""
    by_layout: bool = False
    """The layout of those arrays decides whether the computation communicates; without that it waits for nobody."""
    branches: tuple[tuple[Place, bool], ...] = ()
    """The conditions on the way to it, in the functions that are called, and what each must be."""


def collective_calls(
    program: Program, file: FileFacts, nodes: Iterable[ast.AST], depth: int = 0
) -> Iterator[CollectiveCall]:
    """The calls under some nodes that all processes must make, of each call at most one."""
    for call, tests in _calls_of_block(nodes, ()):
        found = _collective_of_call(program, Place(file, call), depth)
        if found is not None and depth:
            found = replace(found, branches=(*_conditions_around(file, call, tests), *found.branches))
        if found is not None:
            yield found


_Tests = tuple[tuple[ast.expr | None, bool], ...]


def _conditions_around(file: FileFacts, call: ast.Call, tests: _Tests) -> Iterator[tuple[Place, bool]]:
    """The conditions around a call; what says nothing of itself, as an exception that is caught, is its own place."""
    return ((Place(file, test or call), truth) for test, truth in tests)


def _collective_of_call(program: Program, place: Place, depth: int) -> CollectiveCall | None:
    call, file = place.node, place.file
    assert isinstance(call, ast.Call)
    callees = options(program.evaluator.value(Place(file, call.func)))
    for callee in callees:
        if isinstance(callee, Api) and (callee.name in COLLECTIVES or callee.name == FLAX_SAVE):
            return CollectiveCall(callee.name, place, (), len(callees) == 1)
        if isinstance(callee, Api) and callee.name.startswith("jax.tree."):
            inside = _mapped_collective(program, place, depth)
            if inside is not None:
                return inside
        function = _synchronous_function(callee) or (
            _called_object_method(program, place, callee) if depth < _DEPTH else None
        )
        if function is not None and depth < _DEPTH:
            inside = _collective_in_function(program, function, depth + 1)
            if inside is not None:
                sure = inside.sure and len(callees) == 1
                return replace(inside, through=(place, *inside.through), sure=sure)
    return _checkpoint_save(program, file, call) or _compiled_collective(program, place)


def _compiled_collective(program: Program, place: Place) -> CollectiveCall | None:
    """A compiled function that is given an array of all processes: each of them must start it."""
    call = place.node
    assert isinstance(call, ast.Call)
    name = _compiled_function_name(program, place.file, call) if call.args or call.keywords else ""
    given: tuple[ast.expr, ...] = (*call.args, *(one.value for one in call.keywords)) if name else ()
    if not name and isinstance(call.func, ast.Attribute) and call.func.attr in METHODS and call.func.attr != "astype":
        name, given = f"`{ast.unparse(call.func)}`", (call.func.value,)
    needed = any(map(_is_leading_index, given)) or (call_communicates(program, place) if name else False)
    if needed is False:
        return None
    made_for = _global_out_shardings(program, place)
    why = f"`{made_for}` is over the devices of all processes" if made_for else ""
    for one in given if not why else ():
        made = GlobalArrays(program).maker_of_array(Place(place.file, one))
        if made:
            why = f"{place.file.source_text(one)} is of all processes: {made}"
            break
    return CollectiveCall(name, place, (), False, why, True, needed is None) if why else None


def _is_leading_index(node: ast.expr) -> bool:
    """Return whether an argument is `x[0]`, which its device sends to the others."""
    return (isinstance(node, ast.Tuple | ast.List) and any(map(_is_leading_index, node.elts))) or (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
    )


def _global_out_shardings(program: Program, place: Place) -> str:
    """The `out_shardings` of a compiled function that are over the devices of all processes, as text."""
    call = place.node
    assert isinstance(call, ast.Call)
    for option in evaluate_held_member(program, Place(place.file, call.func)):
        made = option.call if isinstance(option, Transformed) and option.api.name in JIT_WRAPPERS else None
        where = made.keywords.get("out_shardings") if made is not None else None
        parts = [where] if where is not None else []
        if where is not None and isinstance(where.node, ast.Tuple | ast.List):
            parts = [Place(where.file, one) for one in where.node.elts]
        for one in parts:
            if sharding_of_all(program, one):
                return " ".join(one.source_text().split())
    return ""


def _mapped_collective(program: Program, place: Place, depth: int) -> CollectiveCall | None:
    """The function that a tree map runs."""
    call = place.node
    assert isinstance(call, ast.Call)
    for callee in options(program.evaluator.value(Place(place.file, call.args[0]))) if call.args else ():
        if isinstance(callee, Api) and callee.name in COLLECTIVES:
            return CollectiveCall(callee.name, place)
        if isinstance(callee, Transformed) and isinstance(callee.inner, Api) and callee.inner.name in COLLECTIVES:
            return CollectiveCall(callee.inner.name, place)
        if isinstance(callee, Function) and depth < _DEPTH:
            inside = _collective_in_function(program, callee, depth + 1)
            if inside is not None:
                return replace(inside, through=(place, *inside.through))
    return None


def _synchronous_function(callee: object) -> Function | None:
    if isinstance(callee, Function) and not isinstance(callee.node, ast.AsyncFunctionDef):
        return callee
    return None


def _called_object_method(program: Program, place: Place, callee: object) -> Function | None:
    """The method that calling an object of the project runs: `pipeline(prompts)`."""
    call = place.node
    assert isinstance(call, ast.Call)
    func = call.func
    of_self = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
    if isinstance(callee, Api | Transformed | ClassValue) or not (isinstance(func, ast.Name) or of_self):
        return None
    for one in find_project_objects(program, Place(place.file, call.func)):
        for method in options(program.evaluator.evaluate_attribute(one, "__call__")):
            if isinstance(method, Function):
                return _synchronous_function(method)
    return None


def _collective_in_function(program: Program, function: Function, depth: int) -> CollectiveCall | None:
    """The first such call in a function; one that a test of the process count goes around is right."""
    node = function.node
    body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]

    def find_in_body() -> CollectiveCall | None:
        return next(collective_calls(program, function.place.file, body, depth), None)

    return program.answer_for_node(("together", node, depth), find_in_body)


def _checkpoint_save(program: Program, file: FileFacts, call: ast.Call) -> CollectiveCall | None:
    """`manager.save(...)`: Orbax's checkpointers wait for all processes."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _SAVING:
        return None
    kinds = [
        one for one in options(program.evaluator.value(Place(file, func.value))) if isinstance(one, CallResult)
    ]
    if any(_SAVERS.match(one.api) for one in kinds):
        return CollectiveCall(f"Orbax's {func.attr}", Place(file, call))
    if _is_annotated_saver(program, file, func.value):
        return CollectiveCall(
            f"Orbax's {func.attr}", Place(file, call), (), False, "its annotation is a class of Orbax's"
        )
    holder = func.value
    name = last_name(holder)
    if _NAMED_SAVER.search(name) and not any(isinstance(one.by, ClassValue) for one in kinds):
        if file.contains_text("orbax") or program.project.is_module_imported(file.path, "orbax.checkpoint"):
            place = Place(file, call)
            return CollectiveCall(
                f"Orbax's {func.attr}", place, (), False, f"`{name}` is one of Orbax's by its name"
            )
    return None


def _is_annotated_saver(program: Program, file: FileFacts, node: ast.expr) -> bool:
    """Return whether a parameter, or the attribute that stores it, is annotated as an Orbax class."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        cls = next((one for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
        stored = list(sole_assigned_values(file, cls, node.attr)) if cls is not None else []
        return len(stored) == 1 and isinstance(stored[0], ast.Name) and _is_annotated_saver(program, file, stored[0])
    if not isinstance(node, ast.Name):
        return False
    bindings, _ = lookup_bindings(file, node, node.id)
    if len(bindings) != 1 or bindings[0].kind != "param" or bindings[0].annotation is None:
        return False
    kinds = annotated_classes(program.evaluator, Place(file, bindings[0].annotation))
    return any(isinstance(one, Api) and _SAVERS.match(one.name) is not None for one in kinds)


def _compiled_function_name(program: Program, file: FileFacts, call: ast.Call) -> str:
    """The name of a compiled function that a call runs."""
    for option in evaluate_held_member(program, Place(file, call.func)):
        if isinstance(option, Transformed) and option.api.name in JIT_WRAPPERS:
            return f"`{ast.unparse(call.func)}`"
        if isinstance(option, Api) and option.name.startswith("jax.numpy."):
            return option.name
    return ""


def _calls_of_block(nodes: Iterable[ast.AST], tests: _Tests) -> Iterator[tuple[ast.Call, _Tests]]:
    """The calls of one statement after the other: behind `if done: return` only where that is not so."""
    for node in nodes:
        yield from _calls_of_node(node, tests)
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return | ast.Continue | ast.Break):
            tests = (*tests, (node.test, False))


def _calls_of_node(node: ast.AST, tests: _Tests) -> Iterator[tuple[ast.Call, _Tests]]:
    """The calls that a node makes, the inner ones first, and the conditions under which it makes each."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return
    for name, value in ast.iter_fields(node):
        inside = tests
        if name in ("body", "orelse") and isinstance(node, ast.If | ast.IfExp | ast.While):
            inside = (*tests, (node.test, name == "body"))
        elif name == "body" and isinstance(node, ast.ExceptHandler):
            inside = (*tests, (None, True))
        if isinstance(value, list):
            yield from _calls_of_block((child for child in value if isinstance(child, ast.AST)), inside)
        elif isinstance(value, ast.AST):
            yield from _calls_of_node(value, inside)
    if isinstance(node, ast.Call):
        yield node, tests
