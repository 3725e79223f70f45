"""A call of the experimental shard_map as a call of jax.shard_map."""

from __future__ import annotations

import ast

from shardlint.model.values import Constant, Items
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings

POSITIONS = ("mesh", "in_specs", "out_specs", "check_rep")


def edits_for_new_call(site: Site, function: ast.expr) -> list[Edit] | None:
    """Edits of the arguments given to a shard_map named by `function`: keywords after the first, and their
    new names.

    None where the text does not show all of them.
    """
    file = site.file
    call = file.parent(function)
    if not isinstance(call, ast.Call):
        return None
    if call.func is function:
        given = call.args
    elif call.args and call.args[0] is function and _has_all_arguments(file, call):
        given = call.args[1:]
    else:
        return None
    edits = edits_naming_arguments(file, given, rename=True)
    if edits is None:
        return None
    twice = POSITIONS[: max(0, len(given) - 1)]
    for keyword in call.keywords:
        if keyword.arg is None:
            hidden = _renamed_in_dict(site, keyword.value, ("f", "auto", *twice))
            if hidden is None:
                return None
            edits += hidden
        if keyword.arg in ("f", *twice):
            return None
        if keyword.arg == "check_rep":
            start = file.character_span(keyword)[0]
            edits.append(Edit(start, start + len("check_rep"), "check_vma"))
        if keyword.arg == "auto":
            mapped = edit_auto_to_axis_names(site, call, keyword, given[1] if len(given) > 1 else None)
            if mapped is None:
                return None
            edits.append(mapped)
    return edits


def _renamed_in_dict(site: Site, node: ast.expr, refused: tuple[str, ...]) -> list[Edit] | None:
    """Edits of a dict that is given as `**`: written out, or a variable's that only this call opens.

    None where the text does not show its keys, or one is among those `refused`.
    """
    if isinstance(node, ast.Name):
        bindings, scope = lookup_bindings(site.file, node, node.id)
        if scope is None or scope.kind in ("class", "module") or len(site.file.bindings(scope, node.id)) != 1:
            return None  # another file may use it
        uses = [one for one in site.file.mentions_in(scope, node.id) if isinstance(one, ast.Name)]
        value = bindings[0].value if bindings and bindings[0].kind == "assign" else None
        if value is None or isinstance(value, ast.Name) or len(uses) != 2:
            return None
        node = value
    keys: list[tuple[object, ast.AST]] = []
    if isinstance(node, ast.Dict):
        keys = [(key.value if isinstance(key, ast.Constant) else None, key or node) for key in node.keys]
    elif isinstance(node, ast.Call) and not node.args and last_name(node.func) == "dict":
        keys = [(one.arg, one) for one in node.keywords]
    else:
        return None
    if any(not isinstance(name, str) or name in refused for name, _ in keys):
        return None
    edits = []
    for name, place in keys:
        if name == "check_rep":
            start, end = site.file.character_span(place)
            text = site.file.source.text[start:end]
            edits.append(Edit(start, end, text.replace("check_rep", "check_vma", 1)))
    return edits


def edit_auto_to_axis_names(site: Site, call: ast.Call, auto: ast.keyword, mesh: ast.expr | None = None) -> Edit | None:
    """`auto=`, the axes that are left alone, as `axis_names=`, those that are mapped over; None where the mesh
    cannot be asked for its axes."""
    mesh = mesh or next((one.value for one in call.keywords if one.arg == "mesh"), None)
    if mesh is None or any(one.arg == "axis_names" for one in call.keywords):
        return None
    known = site.mesh_of(site.value(mesh))
    left = _names_in_set(site, auto.value)
    if known is not None and known.axis_names is not None and left is not None:
        mapped = [name for name in known.axis_names if name not in left]
        if not mapped:
            return None
        text = "{" + ", ".join(f'"{name}"' for name in mapped) + "}"
    elif isinstance(mesh, ast.Name | ast.Attribute):
        text = f"set({site.text(mesh)}.axis_names) - {_parenthesized_text(site, auto.value)}"
    else:
        return None
    start = site.file.character_span(auto)[0]
    return Edit(start, site.file.character_span(auto.value)[1], f"axis_names={text}")


def _names_in_set(site: Site, node: ast.expr) -> list[str] | None:
    """The names in `{...}` or `frozenset({...})`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("frozenset", "set")
    ):
        if not node.args:
            return []
        node = node.args[0]
    value = site.value(node)
    if not isinstance(value, Items) or value.open or value.repeated:
        return None
    names = [one.value for one in value.items if isinstance(one, Constant) and isinstance(one.value, str)]
    return names if len(names) == len(value.items) else None


def _parenthesized_text(site: Site, node: ast.expr) -> str:
    text = site.text(node)
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Set)
    return text if simple else f"({text})"


def edits_naming_arguments(file: FileFacts, expressions: list[ast.expr], rename: bool) -> list[Edit] | None:
    """Edits that give every argument but the first its keyword; None with `*args` or more arguments than
    there are."""
    if any(isinstance(argument, ast.Starred) for argument in expressions) or len(expressions) > 1 + len(POSITIONS):
        return None
    edits = []
    for name, argument in zip(POSITIONS, expressions[1:], strict=False):
        start = _opening_parenthesis(file, argument)
        if start is None:
            return None
        edits.append(Edit(start, start, f"{'check_vma' if rename and name == 'check_rep' else name}="))
    return edits


def _opening_parenthesis(file: FileFacts, argument: ast.expr) -> int | None:
    """Where an argument starts, parentheses that belong to it included."""
    text = file.source.text
    start = file.character_span(argument)[0]
    position = start
    while position > 0 and text[position - 1] in " \t\r\n(":
        position -= 1
        if text[position] == "(":
            start = position
    # The call's own bracket comes after its function's text, never after a comma.
    return start if text[:start].rstrip().endswith(",") else None


def _has_all_arguments(file: FileFacts, partial: ast.Call) -> bool:
    """Return whether all arguments but the function are in the partial, which decorates, or is called at once with one
    argument.
    """
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
