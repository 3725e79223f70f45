"""Decorators of the project that hand a function what they are given, and give back what it gives.

    def logged(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            start = time.perf_counter()
            out = fn(*args, **kwargs)
            print(time.perf_counter() - start)
            return out

        return inner

Through such a decorator constraints in the function's body are on what the caller gives and gets.
"""

from __future__ import annotations

import ast

from shardlint.model.values import Api, CallResult, Function, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes


def forwards_unchanged(site: Site, decorator: ast.expr) -> bool:
    """Return whether a decorator's result has the parameters and results of the function, and is its only caller."""
    found = options(site.value(decorator))
    return bool(found) and all(
        isinstance(one, Function) and not one.bound and _is_decorator_function(site, one.place.file, one.node)
        for one in found
    )


def _is_decorator_function(site: Site, file: FileFacts, node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.decorator_list or len(node.args.args) != 1:
        return False
    if node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.posonlyargs:
        return False
    name = node.args.args[0].arg
    made = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    if len(made) != 1 or not _returns_inner_result(file, made[0], name):
        return False
    inner = made[0]
    returns = file.walk_scope(file.scope(node)).returns
    if not all(_is_name(getattr(one, "value", None), inner.name) for one in returns):
        return False
    own = file.scope(node)
    for mention in walk_nodes(node):
        if isinstance(mention, ast.Name) and mention.id == name and lookup_bindings(file, mention, name)[1] is own:
            if not _is_harmless_use(site, file, mention, inner):
                return False
    return all(_is_functools_wraps(site, file, one) for one in inner.decorator_list)


def _returns_inner_result(file: FileFacts, inner: ast.FunctionDef, name: str) -> bool:
    """Return whether every result of the inner function is that of `name(*args, **kwargs)`."""
    args = inner.args
    if args.args or args.kwonlyargs or args.posonlyargs or not args.vararg or not args.kwarg:
        return False
    scope = file.walk_scope(file.scope(inner))
    if any(len(scope.bindings.get(one.arg, ())) > 1 for one in (args.vararg, args.kwarg)):
        return False
    return bool(scope.returns) and all(
        isinstance(one, ast.Return)
        and one.value is not None
        and _returns_inner_function(file, inner, one.value, name)
        for one in scope.returns
    )


def _returns_inner_function(file: FileFacts, inner: ast.FunctionDef, value: ast.expr, name: str) -> bool:
    if isinstance(value, ast.Name):
        bound = file.bindings(file.scope(inner), value.id)
        if len(bound) != 1 or bound[0].kind != "assign" or bound[0].value is None:
            return False
        value = bound[0].value
    return _is_name(getattr(value, "func", None), name) and _forwards_all_arguments(value, inner)


def _forwards_all_arguments(call: ast.AST | None, inner: ast.FunctionDef) -> bool:
    """Return whether a call passes on `*args, **kwargs`, and nothing else."""
    match call:
        case ast.Call(args=[ast.Starred(value=star)], keywords=[ast.keyword(arg=None, value=double)]):
            return _is_parameter(star, inner.args.vararg) and _is_parameter(double, inner.args.kwarg)
    return False


def _is_parameter(node: ast.expr, parameter: ast.arg | None) -> bool:
    return parameter is not None and _is_name(node, parameter.arg)


def _is_harmless_use(site: Site, file: FileFacts, mention: ast.Name, inner: ast.FunctionDef) -> bool:
    """Return whether one use of the function calls it with all arguments, or reads its name."""
    outer = file.parent(mention)
    if isinstance(outer, ast.Attribute):
        return outer.attr.startswith("__") and isinstance(outer.ctx, ast.Load)
    if isinstance(outer, ast.Call) and outer.func is mention:
        return _forwards_all_arguments(outer, inner)
    return isinstance(outer, ast.Call) and _is_functools_wraps(site, file, outer)


def _is_functools_wraps(site: Site, file: FileFacts, node: ast.expr) -> bool:
    value = site.program.value(file, node)
    made = value.by if isinstance(value, CallResult) else value
    return isinstance(made, Api) and made.name == "functools.wraps"


def _is_name(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
