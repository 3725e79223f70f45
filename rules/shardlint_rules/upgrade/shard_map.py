"""A call of the experimental shard_map as a call of jax.shard_map."""

from __future__ import annotations

import ast

from shardlint.facts import FileFacts
from shardlint.rule import Edit

POSITIONS = ("mesh", "in_specs", "out_specs", "check_rep")


def new_call(file: FileFacts, function: ast.expr) -> list[Edit] | None:
    """Edits of the arguments given to a shard_map named by `function`: keywords after the first, and their
    new names.

    None where the text does not show all of them, or where `auto` needs thought.
    """
    call = file.parent(function)
    if not isinstance(call, ast.Call):
        return None
    if call.func is function:
        given = call.args
    elif call.args and call.args[0] is function and _completed(file, call):
        given = call.args[1:]
    else:
        return None
    edits = keywords_for(file, given, rename=True)
    if edits is None:
        return None
    for keyword in call.keywords:
        if keyword.arg in (None, "auto", "f"):
            return None
        if keyword.arg == "check_rep":
            start = file.span(keyword)[0]
            edits.append(Edit(start, start + len("check_rep"), "check_vma"))
    return edits


def keywords_for(file: FileFacts, given: list[ast.expr], rename: bool) -> list[Edit] | None:
    """Edits that give every argument but the first its keyword; None with `*args` or more arguments than
    there are."""
    if any(isinstance(argument, ast.Starred) for argument in given) or len(given) > 1 + len(POSITIONS):
        return None
    edits = []
    for name, argument in zip(POSITIONS, given[1:], strict=False):
        start = _opening(file, argument)
        if start is None:
            return None
        edits.append(Edit(start, start, f"{'check_vma' if rename and name == 'check_rep' else name}="))
    return edits


def _opening(file: FileFacts, argument: ast.expr) -> int | None:
    """Where an argument starts, parentheses that belong to it included."""
    text = file.source.text
    start = file.span(argument)[0]
    position = start
    while position > 0 and text[position - 1] in " \t\r\n(":
        position -= 1
        if text[position] == "(":
            start = position
    # The call's own bracket comes after its function's text, never after a comma.
    return start if text[:start].rstrip().endswith(",") else None


def _completed(file: FileFacts, partial: ast.Call) -> bool:
    """Whether all arguments but the function are in the partial: it decorates, or is called at once with one
    argument."""
    outer = file.parent(partial)
    if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) and partial in outer.decorator_list:
        return True
    return (
        isinstance(outer, ast.Call)
        and outer.func is partial
        and len(outer.args) == 1
        and not outer.keywords
        and not isinstance(outer.args[0], ast.Starred)
    )
