"""Test for conditions on the count of devices or processes: one, or several."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import replace

from shardlint.facts.bound_names import settled_expression
from shardlint.model import Program
from shardlint.model.evaluator.annotations import annotated_project_classes
from shardlint.model.values import Api, CallResult, ClassValue, Function, Parameter, Place, Value, options
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import sole_returned_value

_COUNTS = {
    "jax.device_count": "devices",
    "jax.local_device_count": "devices",
    "jax.process_count": "processes",
    "jax.devices": "devices",
    "jax.local_devices": "devices",
}
# Names of numbers of devices or processes, and of flags.
_NUMBER = compile_lazily(
    r"(?i)(device|process|host|chip|tpu|gpu|tp|dp|ep|world|parallel|mesh|shard)s?_?(size|count|num|ism)?$"
)
_NUMBERED = compile_lazily(
    r"(?i)(num|n)_?(devices|processes|hosts|chips|shards|gpus|tpus)$|^(tp|dp|ep|mesh|world)_size$"
)
_ALONE = compile_lazily(r"(?i)(^|_)(is_)?(single|one)_?(device|process|host|chip|gpu|tpu)")
_MANY = compile_lazily(r"(?i)(^|_)(is_)?multi(ple)?_?(device|process|host|chip|gpu|tpu)|(^|_)is_distributed$")
_COMPARED: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
}
_DEPTH = 4


@dataclass(frozen=True)
class CountAnswer:
    """A condition that is `truth` where there is one of `what`. Not `proven` where only the name of a flag tells."""

    truth: bool
    what: str
    proven: bool


def one_of_it(program: Program, place: Place, depth: int = 0) -> CountAnswer | None:
    """Return the answer of a condition on the number of devices or processes; None if it is about something else."""
    node = place.node
    if depth > _DEPTH:
        return None
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = one_of_it(program, Place(place.file, operand), depth)
            return replace(found, truth=not found.truth) if found is not None else None
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int() as number)]):
            what, truth = _kind_of_counted(program, place.file, left), _compare_for_one_process(op, number)
            return CountAnswer(truth, what, True) if what is not None and truth is not None else None
        case ast.Compare(left=ast.Constant(value=int()) as left, ops=[op], comparators=[right]):
            if type(op) in _MIRRORED:  # `1 < jax.process_count()`
                turned = ast.Compare(right, [_MIRRORED[type(op)]()], [left])
                return one_of_it(program, Place(place.file, turned), depth + 1)
        case ast.Call(func=func, args=[], keywords=[]):
            return _find_returned(program, program.value(place.file, func), depth) or _answer_by_name(func)
        case ast.Name():
            value = settled_expression(place.file, node)
            found = one_of_it(program, Place(place.file, value), depth + 1) if value is not node else None
            return found or _answer_by_name(node)
        case ast.Attribute():
            return _answer_of_property(program, place.file, node, depth) or _answer_by_name(node)
    return None


def _compare_for_one_process(op: ast.cmpop, number: int) -> bool | None:
    """Return the result of a comparison of a count with a number for a count of one; None if it does not tell one from
    two.
    """
    answer = _COMPARED.get(type(op))
    if answer is None or answer(1, number) == answer(2, number) or answer(2, number) != answer(3, number):
        return None
    return answer(1, number)


def _kind_of_counted(program: Program, file: FileFacts, node: ast.expr) -> str | None:
    """Return the kind of objects that a number counts, by the jax function or by its name."""
    node = settled_expression(file, node)
    if isinstance(node, ast.Call):
        inner = node.args[0] if len(node.args) == 1 and getattr(node.func, "id", "") == "len" else node
        if isinstance(inner, ast.Call):
            for one in options(program.value(file, inner.func)):
                if isinstance(one, Api) and one.name in _COUNTS:
                    return _COUNTS[one.name]
        return None
    name = last_name(node)
    if name == "size" and isinstance(node, ast.Attribute) and "mesh" in file.source_text(node.value).lower():
        return "devices"
    if _NUMBERED.search(name) or (_NUMBER.search(name) and name.lower().endswith(("size", "count", "ism"))):
        return "processes" if re.search("(?i)process|host", name) else "devices"
    return None


def _answer_by_name(node: ast.expr) -> CountAnswer | None:
    name = last_name(node)
    what = "processes" if re.search("(?i)process|host|distributed", name) else "devices"
    if _ALONE.search(name):
        return CountAnswer(True, what, False)
    return CountAnswer(False, what, False) if _MANY.search(name) else None


def _find_returned(program: Program, value: Value, depth: int) -> CountAnswer | None:
    """Return the answer in the result of a function of the project."""
    if not isinstance(value, Function):
        return None
    file = value.place.file
    returned = sole_returned_value(file, value.node)
    return one_of_it(program, Place(file, returned), depth + 1) if returned is not None else None


def _answer_of_property(program: Program, file: FileFacts, node: ast.Attribute, depth: int) -> CountAnswer | None:
    """Return the answer in a property of an object whose class is visible, by annotation too."""
    for option in options(program.value(file, node.value)):
        cls = option.by if isinstance(option, CallResult) else None
        if isinstance(option, Parameter):
            cls = next(iter(annotated_project_classes(program.evaluator, option)), None)
        if not isinstance(cls, ClassValue):
            continue
        for candidate in program.evaluator.classes.project_ancestors(cls):
            inside = candidate.place.file
            bound = inside.bindings(inside.scope(candidate.node), node.attr)
            if bound and isinstance(bound[0].node, ast.FunctionDef):
                return _find_returned(program, Function(Place(inside, bound[0].node)), depth)
    return None
