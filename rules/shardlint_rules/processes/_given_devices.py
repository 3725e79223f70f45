"""Counts of all devices in a function whose caller says which devices it works with."""

from __future__ import annotations

import ast

from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import mentions_name, walk_nodes

_DEVICES = compile_lazily(
    r"^(?:(?!num_|n_|nr_|max_|min_|total_|enable_|use_|multi_|other_)[a-z]\w*_)?devices$|^device_list$"
)
_TELLING = compile_lazily(r"(?i)^(?:debug|info|warn(?:ing)?|error|exception|critical|log\w*|print|format|\w*Error)$")
_PLACING = (
    "Mesh",
    "make_mesh",
    "create_device_mesh",
    "array",
    "asarray",
    "pmap",
    "PmapSharding",
    "PositionalSharding",
)


def find_devices_parameter(site: Site) -> str | None:
    """The parameter that says which devices a function works with, where a count in it is that of others."""
    file, counted = site.file, _counted_expression(site.file, site.call)
    function = site.scope.enclosing_function()
    node = function.node if function is not None else None
    if counted is None or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    args = node.args
    for parameter in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        name = parameter.arg
        if (
            _DEVICES.search(name)
            and _uses_given_devices(file, node, name)
            and not _is_count_excused(file, node, counted, name)
        ):
            return name
    return None


def _counted_expression(file: FileFacts, call: ast.Call) -> ast.expr | None:
    """The expression that is a number of devices; None for a list of them."""
    if last_name(call.func).endswith("device_count"):
        return None if call.args or call.keywords else call
    parent = file.parent(call)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len":
        return None if call.args or call.keywords else parent
    return None


def _uses_given_devices(file: FileFacts, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Return whether the given devices are used in a mesh, or in a call that takes them as `devices`."""
    for one in walk_nodes(function):
        if not isinstance(one, ast.Call):
            continue
        if any(keyword.arg == "devices" and _is_name(keyword.value, name) for keyword in one.keywords):
            return True
        if last_name(one.func) in _PLACING and any(_is_name(arg, name) for arg in one.args):
            return True
        if last_name(one.func).startswith(("device_put", "replicate", "prefetch")) and any(
            _is_name(a, name) for a in one.args
        ):
            return True
        if last_name(one.func) == "len" and any(_is_name(arg, name) for arg in one.args):
            return True
    return "devices" in _default_of_parameter(function, name)


def _default_of_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> str:
    """Return the default of a parameter that is left out, as written in the body: `devices = jax.devices()`."""
    for one in walk_nodes(function):
        if isinstance(one, ast.Assign) and _is_name(one.targets[0], name) and isinstance(one.value, ast.Call):
            return last_name(one.value.func)
    return ""


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_count_excused(file: FileFacts, function: ast.AST, counted: ast.expr, name: str) -> bool:
    """Return whether a count is compared with the argument, replaces a missing one, or is only printed."""
    expression = _whole_expression(file, counted)
    if expression is None or mentions_name(expression, name):
        return True
    statement = file.parent(expression)
    if isinstance(statement, ast.Expr | ast.Raise):
        return True
    if _is_reached_without_devices(file, function, counted, name):
        return True
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if target is None or (expression is not counted and not _is_number_of(expression, counted)):
        return False
    if not isinstance(target, ast.Name) or _is_name(target, name):
        return True
    uses = [
        _whole_expression(file, one)
        for one in walk_nodes(function)
        if isinstance(one, ast.Name) and one.id == target.id and one is not target
    ]
    real = [one for one in uses if one is not None and not isinstance(file.parent(one), ast.Expr | ast.Raise)]
    return not real or any(mentions_name(one, name) for one in real)


def _is_number_of(expression: ast.expr, counted: ast.expr) -> bool:
    """True for `int(count)`."""
    match expression:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return inner is counted
    return False


def _whole_expression(file: FileFacts, node: ast.expr) -> ast.expr | None:
    """The whole expression of a statement that a node is part of; None in what is only told to somebody."""
    while True:
        parent = file.parent(node)
        if isinstance(parent, ast.JoinedStr | ast.FormattedValue):
            return None
        if (
            isinstance(parent, ast.Call)
            and parent.func is not node
            and _TELLING.search(last_name(parent.func))
        ):
            return None
        if isinstance(parent, ast.keyword | ast.comprehension | ast.Slice):
            above = file.parent(parent)
            if not isinstance(above, ast.expr):
                return node
            node = above
        elif isinstance(parent, ast.expr):
            node = parent
        else:
            return node


def _is_reached_without_devices(file: FileFacts, function: ast.AST, node: ast.AST, name: str) -> bool:
    """Return whether a place is reached if the devices are not given, or a condition tests something else about
    them.
    """
    inner = node
    for outer in file.ancestors(node):
        if outer is function:
            return False
        if (
            isinstance(outer, ast.If | ast.IfExp | ast.While)
            and inner is not outer.test
            and mentions_name(outer.test, name)
        ):
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if _is_true_if_given(outer.test, name) is not (inner in body):
                return True
        inner = outer
    return False


def _is_true_if_given(test: ast.expr, name: str) -> bool | None:
    """Return whether a condition holds if devices are given; None if it tests something else."""
    match test:
        case ast.Name(id=one) if one == name:
            return True
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=one)) if one == name:
            return False
        case ast.Compare(left=ast.Name(id=one), ops=[op], comparators=[ast.Constant(value=None)]) if (
            one == name
        ):
            return isinstance(op, ast.IsNot | ast.NotEq)
    return None
