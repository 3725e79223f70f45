"""Statements just before a call of `filter_jit`: keywords taken out of a dict, names for what is given."""

from __future__ import annotations

import ast

from shardlint.rules_api.site import Site
from shardlint.syntax import Binding, last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox.wrapped_functions import NotRewritten

_AT_ONCE = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def is_run_repeatedly(site: Site) -> bool:
    """Return whether the call runs for each element or iteration, so that its argument cannot be named just before."""
    try:
        check_place(site)
    except NotRewritten:
        return True
    return False


def check_place(site: Site) -> None:
    """The statements are run once, just before the call."""
    statement = site.file.statement(site.call)
    for outer in site.file.ancestors(site.call):
        if outer is statement:
            break
        if isinstance(outer, _AT_ONCE):
            raise NotRewritten(
                f"the expression around the call at line {site.call.lineno} may evaluate the "
                "shardings never or many times: "
                "assign them to a variable in a statement above"
            )
    scope = site.file.evaluation_scope(statement)
    for outer in site.file.ancestors(statement):
        if outer is scope.node:
            break
        if isinstance(outer, _LOOPS):
            raise NotRewritten(
                f"the loop at line {outer.lineno} may change the shardings, "
                "and the function would read only the last shardings"
            )
    if scope.kind == "class":
        raise NotRewritten(
            f"line {site.call.lineno} reads the shardings in a class body, "
            "and methods cannot read names of the class body"
        )


def is_local_dict(site: Site, node: ast.expr) -> bool:
    """Return whether the dict is a variable of this function (or module), filled here and passed to this call alone."""
    if not isinstance(node, ast.Name):
        return False
    bindings, scope = lookup_bindings(site.file, node, node.id)
    if scope is None or scope is not site.file.evaluation_scope(node):
        return False
    if not all(_is_fresh_dict(binding) for binding in bindings):
        return False
    for mention in site.file.mentions_in(scope, node.id):
        if not isinstance(mention, ast.Name) or isinstance(mention.ctx, ast.Store) or mention is node:
            continue
        outer = site.file.parent(mention)
        if isinstance(outer, ast.Subscript):
            continue
        if isinstance(outer, ast.Attribute) and outer.attr in ("update", "setdefault", "pop", "get"):
            continue
        return False
    return scope.kind != "module" or not any(
        True for _ in site.program.project.files_importing(site.file.path, node.id)
    )


def _is_fresh_dict(binding: Binding) -> bool:
    """Return whether nothing else refers to the dict: it is made here, or is the `**kwargs` of the function."""
    if binding.kind == "assign" and binding.value is not None:
        return _makes_dict(binding.value)
    return binding.node is getattr(getattr(binding.scope.node, "args", None), "kwarg", None)


def _makes_dict(node: ast.expr) -> bool:
    called = last_name(node.func) if isinstance(node, ast.Call) else ""
    return isinstance(node, ast.Dict | ast.DictComp) or called in ("dict", "asdict", "_asdict", "copy")


def copy_dict_text(site: Site, node: ast.expr) -> str:
    """An expression for a dict that nothing else holds."""
    text = site.text(node)
    return text if _makes_dict(node) else f"dict({text})"


def _is_bound_near(site: Site, name: str) -> bool:
    """Return whether a name means something in the scope of the statement, or to code in it."""
    scope = site.file.evaluation_scope(site.file.statement(site.call))
    around = {id(one) for one in scope.enclosing_scopes()}
    if site.file.bindings(scope, name):
        return True
    inside = set(map(id, walk_nodes(scope.node)))
    for mention in site.file.find_mentions(name):
        if isinstance(mention, ast.Name) and isinstance(mention.ctx, ast.Load) and id(mention) in inside:
            owner = lookup_bindings(site.file, mention, name)[1]
            if owner is None or id(owner) in around:
                return True
    return False


def choose_free_names(site: Site, wanted: list[str]) -> list[str]:
    """Names for what the fix binds, which no other fix of the file takes: plain ones at its first `filter_jit`."""
    calls = [site.file.parent(mention) for mention in site.file.find_mentions("filter_jit")]
    earlier = [one for one in calls if isinstance(one, ast.Call) and one.lineno < site.call.lineno]
    if not earlier and not any(_is_bound_near(site, name) for name in wanted):
        return wanted
    base = _wrapped_function_name(site, site.call)
    behind = sum(1 for one in earlier if _wrapped_function_name(site, one) == base)
    for number in range(1, len(calls) + 50):
        again = [str(number)] if number > 1 else []
        names = ["_".join([base, *again, name] if base else [name, *again]) for name in wanted]
        if not any(_is_bound_near(site, name) for name in names):
            if not behind:
                return names
            behind -= 1
    raise NotRewritten(f"the file uses `{wanted[0]}` and its numbered forms already")


def _wrapped_function_name(site: Site, call: ast.Call) -> str:
    """Return the name of the function that a call of `filter_jit` wraps."""
    definition = site.file.parent(call)
    if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        return definition.name.strip("_")
    node: ast.AST | None = call.args[0] if call.args else None
    while isinstance(node, ast.Call):
        node = node.args[0] if node.args else node.func
    return last_name(node).strip("_") if node is not None else ""


def uses_single_quotes(site: Site) -> bool:
    """Return whether the file writes its strings with single quotes."""
    text = site.file.source.text
    return text.count("'") > text.count('"')
