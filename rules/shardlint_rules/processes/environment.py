"""Statements that set a variable of the environment."""

from __future__ import annotations

import ast

from shardlint.source.lazy import dataclass
from shardlint.syntax import last_name


@dataclass(frozen=True)
class Setting:
    """A variable is set to `value`. `keeps_only`: only where it is not set already."""

    name: str
    value: ast.expr
    keeps_only: bool = False
    added: bool = False
    """`+=`: what was there is kept."""


def find_setting(statement: ast.AST) -> Setting | None:
    """Return the setting made by `os.environ[...] = value`, `+=`, `.setdefault`, `.update` or `os.putenv`."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=holder, slice=ast.Constant(value=str() as name))]):
            return Setting(name, statement.value) if _is_environment(holder) else None
        case ast.AugAssign(target=ast.Subscript(value=holder, slice=ast.Constant(value=str() as name))):
            return Setting(name, statement.value, added=True) if _is_environment(holder) else None
        case ast.Expr(value=ast.Call() as call):
            return _setting_by_call(call)
    return None


def _setting_by_call(call: ast.Call) -> Setting | None:
    match call:
        case ast.Call(
            func=ast.Attribute(value=holder, attr="setdefault" | "__setitem__" as how),
            args=[ast.Constant(value=str() as name), value],
        ) if _is_environment(holder):
            return Setting(name, value, how == "setdefault")
        case ast.Call(func=ast.Attribute(attr="putenv"), args=[ast.Constant(value=str() as name), value]):
            return Setting(name, value)
        case ast.Call(func=ast.Attribute(value=holder, attr="update")) if _is_environment(holder):
            for keyword in call.keywords:
                if keyword.arg is not None:
                    return Setting(keyword.arg, keyword.value)
            for given in call.args:
                if isinstance(given, ast.Dict):
                    for key, value in zip(given.keys, given.values, strict=True):
                        if isinstance(key, ast.Constant) and isinstance(key.value, str):
                            return Setting(key.value, value)
    return None


def _is_environment(node: ast.expr) -> bool:
    name = last_name(node)
    return name == "environ"
