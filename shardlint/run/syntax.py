"""Where in the source a thing is written that is only known by its call or its function."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from shardlint.verify.facts import Line

_KEYWORDS = {
    "donation": ("donate_argnums", "donate_argnames"),
    "replicated": ("out_shardings",),
    "recompiled": ("static_argnums", "static_argnames"),
}


def keyword_line(place: Line, kind: str) -> Line:
    """The line of the keyword that a finding of a jit is about, where its call goes over several lines."""
    words = _KEYWORDS.get(kind, ())
    calls = (
        [one for one in _calls_in_file(place.file) if one.lineno <= place.line <= (one.end_lineno or 0)]
        if words
        else []
    )
    # The innermost call with such a keyword; what stands on one line is one place.
    for one in sorted(calls, key=lambda each: (each.end_lineno or 0) - each.lineno):
        for each in one.keywords:
            if each.arg in words:
                return Line(place.file, each.lineno, place.function)
    return place


def return_line(file: str, number: int) -> int:
    """The line of the only `return` of the function whose `def` (or first decorator) is at a line; 0 without one."""
    for node in _functions_in_file(file):
        if number in (node.lineno, *(one.lineno for one in node.decorator_list)):
            found = [one for each in node.body for one in _own_returns(each)]
            return found[0].lineno if len(found) == 1 else 0
    return 0


def setting_line(defined: Sequence[Any], names: Sequence[str]) -> int:
    """The line in a function (file, line, name) that gives a value to the first of some names it sets by a keyword or
    a key of a dict; 0 without one.
    """
    for node in _functions_in_file(str(defined[0])):
        if defined[1] in (node.lineno, *(one.lineno for one in node.decorator_list)):
            inside = [*ast.walk(node)]
            keys = [key for one in inside if isinstance(one, ast.Dict) for key in one.keys]
            set_by: dict[object, int] = {key.value: key.lineno for key in keys if isinstance(key, ast.Constant)}
            set_by |= {one.arg: one.value.lineno for one in inside if isinstance(one, ast.keyword)}
            return next((set_by[name] for name in names if name in set_by), 0)
    return 0


def loop_count_line(place: Line) -> Line:
    """Where the number of rounds of a loop is given that stands at a line: that of a name, where one line of the same
    function gives it; else the line itself.
    """
    calls = [one for one in _calls_in_file(place.file) if one.lineno <= place.line <= (one.end_lineno or 0)]
    names = {each.id for one in calls for each in _loop_count_names(one)}
    for node in _functions_in_file(place.file):
        if names and node.lineno <= place.line <= (node.end_lineno or 0):
            found = [
                one.lineno
                for one in ast.walk(node)
                if isinstance(one, ast.Assign)
                and any(isinstance(to, ast.Name) and to.id in names for to in one.targets)
            ]
            if len(found) == 1:
                return Line(place.file, found[0], place.function)
    return place


def lines_making_argument(place: Line, at: int, count: int) -> list[Line]:
    """The lines that made a positional argument of a call of `count` arguments at a line: the `return` of the function
    of the same file that gives it, and the last line before the call that binds its name.
    """
    calls = [one for one in _calls_in_file(place.file) if one.lineno <= place.line <= (one.end_lineno or 0)]
    call = next((one for one in calls if len(one.args) > at and len(one.args) + len(one.keywords) == count), None)
    if call is None:
        return []
    given: ast.AST = call.args[at]
    found = []
    if isinstance(given, ast.Name):
        within = _innermost_statement(place)[0] or parse_file(place.file)
        bound = [
            one for one in ast.walk(within)
            if isinstance(one, ast.Assign) and one.lineno < call.lineno
            and given.id in {each.id for to in one.targets for each in ast.walk(to) if isinstance(each, ast.Name)}
        ]  # fmt: skip
        if not bound:
            return []
        last = max(bound, key=lambda one: one.lineno)
        given, found = last.value, [Line(place.file, last.lineno, place.function)]
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name):
        for node in _functions_in_file(place.file):
            if node.name == given.func.id and (number := return_line(place.file, node.lineno)):
                found.insert(0, Line(place.file, number, node.name))
    return found


def is_forwarding_call(place: Line) -> bool:
    """Return whether a line returns the result of a call on several arguments of its function, without naming an axis
    there. Then the callers of the function decide the request.
    """
    within, statement = _innermost_statement(place)
    if within is None or not isinstance(statement, ast.Return):
        return False
    given = {one.arg for one in ast.walk(within.args) if isinstance(one, ast.arg)} - {"self", "cls"}
    reading = {one.id for one in ast.walk(statement) if isinstance(one, ast.Name)}
    made = [
        one.value for one in ast.walk(within)
        if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id in reading for to in one.targets)
    ]  # fmt: skip
    each = [node for one in (statement, *made) for node in ast.walk(one)]
    names = {one.id for one in each if isinstance(one, ast.Name)} & given
    return len(names) > 1 and not any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in each)


def reads_outer_name(place: Line) -> bool:
    """Return whether the statement at a line reads a name that its function neither takes nor binds: a name from
    outside that is no module and no function, or an attribute of `self`.
    """
    within, statement = _innermost_statement(place)
    if within is None or statement is None or hasattr(statement, "body"):
        return False
    called = {one.func for one in ast.walk(statement) if isinstance(one, ast.Call)}
    bound = {one.arg for one in ast.walk(within) if isinstance(one, ast.arg)} | _non_array_names(place.file)
    bound |= {one.id for one in ast.walk(within) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    attributes = [one for one in ast.walk(statement) if isinstance(one, ast.Attribute) and one not in called]
    names = [one for one in ast.walk(statement) if isinstance(one, ast.Name) and one not in called]
    of_self = (isinstance(one.value, ast.Name) and one.value.id == "self" for one in attributes)
    return any(of_self) or any(one.id not in bound for one in names)


def _innermost_statement(place: Line) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, ast.stmt | None]:
    """The innermost function around a line, and the innermost statement of it there."""
    around = [one for one in _functions_in_file(place.file) if one.lineno <= place.line <= (one.end_lineno or 0)]
    within = max(around, key=lambda one: one.lineno, default=None)
    lines = [
        one for one in ast.walk(within)
        if isinstance(one, ast.stmt) and one is not within and one.lineno <= place.line <= (one.end_lineno or 0)
    ] if within is not None else []  # fmt: skip
    return within, min(lines, key=lambda one: (one.end_lineno or 0) - one.lineno, default=None)


def _loop_count_names(call: ast.Call) -> list[ast.Name]:
    """The names that say how often a loop goes round: the second argument of `fori_loop`, `length` of `scan`, and what
    an `arange` that it goes through counts.
    """
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "fori_loop":
        given = call.args[1:2]
    elif name in ("arange", "range"):
        given = call.args[:1] if len(call.args) < 2 else call.args[1:2]
    elif name == "scan":
        given = [one.value for one in call.keywords if one.arg == "length"]
    else:
        given = []
    return [one for one in given if isinstance(one, ast.Name)]


def _own_returns(node: ast.AST) -> list[ast.Return]:
    """The returns of a statement that are its function's own."""
    if isinstance(node, ast.Return):
        return [node]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return []
    return [one for child in ast.iter_child_nodes(node) for one in _own_returns(child)]


def holds_string(place: Line, text: str) -> bool:
    """Return whether a statement of a line has a string."""
    return any(
        isinstance(node, ast.Constant) and node.value == text and node.lineno == place.line
        for node in ast.walk(parse_file(place.file))
    )


def pair_line(file: str, key: str) -> int:
    """The line of a file at which a name is paired with something, `{"embed": "data"}`, `("embed", "data")` or
    `dict(embed="data")`; 0 if there is none, or several.
    """
    found = set()
    for node in ast.walk(parse_file(file)):
        if isinstance(node, ast.Dict):
            found |= {one.lineno for one in node.keys if isinstance(one, ast.Constant) and one.value == key}
        elif isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 2:
            found |= {one.lineno for one in node.elts[:1] if isinstance(one, ast.Constant) and one.value == key}
        elif isinstance(node, ast.keyword) and node.arg == key and isinstance(node.value, ast.Constant | ast.Tuple):
            found.add(node.value.lineno)
    return found.pop() if len(found) == 1 else 0


@cache
def parse_file(file: str) -> ast.AST:
    """The syntax of a file; of one that cannot be read as Python, that of an empty one."""
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@cache
def _non_array_names(file: str) -> frozenset[str]:
    """Names that hold no arrays: what a file imports, its functions and classes, and those of Python."""
    found = set(dir(builtins))
    for node in ast.walk(parse_file(file)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
    return frozenset(found)


@cache
def _calls_in_file(file: str) -> list[ast.Call]:
    return [one for one in ast.walk(parse_file(file)) if isinstance(one, ast.Call)]


@cache
def _functions_in_file(file: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in ast.walk(parse_file(file)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
