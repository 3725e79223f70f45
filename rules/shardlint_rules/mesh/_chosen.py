"""Objects that choose what they stand for when an attribute is first asked for."""

from __future__ import annotations

import ast

from shardlint.model.evaluator.classes import handed_on
from shardlint.model.values import CallResult, ClassValue, Value
from shardlint.syntax.nodes import walk


def chosen_when_asked(value: Value, name: str) -> str | None:
    """The class of an object whose `__getattr__` asks another one, which a method sets where there is none yet.

    None where it is no such object, or has the attribute itself.
    """
    if not isinstance(value, CallResult) or not isinstance(value.by, ClassValue):
        return None
    cls = value.by.node
    methods = {one.name: one for one in cls.body if isinstance(one, ast.FunctionDef)}
    if "__getattr__" not in methods or name in methods or _set_in(cls, name):
        return None
    asked = [one.args[0] for one in handed_on(methods["__getattr__"])]
    for chosen in (one for one in asked if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)):
        given = _set_in(cls, chosen.attr)
        if any(_is_none(one) for one in given) and not all(_is_none(one) for one in given):
            return cls.name
    return None


def _set_in(cls: ast.ClassDef, name: str) -> list[ast.expr]:
    """What a class and its methods give an attribute."""
    found: list[ast.expr] = []
    for node in walk(cls):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")) == name:
                found.append(node.value)
    return found


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
