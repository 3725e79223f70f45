"""Keywords in a dict that is given as `**`: those it is made with, and those put in or taken out later."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from shardlint.model.values import (
    CallResult,
    ClassValue,
    Constant,
    Function,
    Place,
    Table,
    Unknown,
    Value,
    options,
)
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.bindings import lookup_bindings

# How far a dict is followed: `options = dict(base)`, `base = make()`, `return options` of make.
_DEPTH = 5
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.ExceptHandler, ast.match_case)
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Entry:
    """A key of the dict. `surely`: on every way; else `place` is where it is put in."""

    value: Value
    surely: bool
    place: Place


def read_dict_entries(site: Site, node: ast.expr, names: Iterable[str]) -> dict[str, Entry]:
    """The keys of a dict among `names`, as far as the text tells."""
    found: dict[str, Entry] = {}
    tables = options(site.value(node))
    for name in names:
        values = [table.value_under(name) if isinstance(table, Table) else None for table in tables]
        held = [value for value in values if value is not None]
        if held:
            found[name] = Entry(held[0], len(held) == len(values), Place(site.file, node))
    for name, entry, there in _changes_of_dict(site, site.file, node, _DEPTH):
        if name not in names:
            continue
        if entry is None:
            found.pop(name, None)
        elif name not in found or (entry.surely and there):
            found[name] = entry
    return found


def _changes_of_dict(
    site: Site, file: FileFacts, node: ast.expr, depth: int, there: bool = True
) -> Iterator[tuple[str, Entry | None, bool]]:
    """Keys put into the dict that an expression names, and, without an entry, those taken out, in text order."""
    if not depth:
        return
    if isinstance(node, ast.Call):
        for name in _field_names(site, file, node):
            yield name, Entry(Unknown("a field of an object"), True, Place(file, node)), there
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy":
            yield from _changes_of_dict(site, file, node.func.value, depth - 1, there)
            return
        if isinstance(node.func, ast.Name) and node.func.id == "dict" and node.args:
            yield from _changes_of_dict(site, file, node.args[0], depth - 1, there)
            return
        functions = options(site.program.value(file, node.func))
        for function in functions:
            if isinstance(function, Function) and isinstance(function.node, ast.FunctionDef):
                inner = function.place.file
                returns = inner.walk_scope(inner.scope(function.node)).returns
                for one in returns:
                    if isinstance(one, ast.Return) and isinstance(one.value, ast.Name):
                        alone = there and len(functions) == len(returns) == 1
                        yield from _changes_of_dict(site, inner, one.value, depth - 1, alone)
        return
    if isinstance(node, ast.BinOp):
        yield from _changes_of_dict(site, file, node.left, depth - 1, there)
        yield from _changes_of_dict(site, file, node.right, depth - 1, there)
        return
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                yield from _changes_of_dict(site, file, value, depth - 1, there)
        return
    if not isinstance(node, ast.Name):
        return
    bindings, scope = lookup_bindings(file, node, node.id)
    if scope is None or scope.kind == "class":
        return
    for binding in bindings:
        if binding.kind == "assign" and binding.value is not None:
            yield from _changes_of_dict(site, file, binding.value, depth - 1, there and len(bindings) == 1)
        if binding.node is getattr(getattr(scope.node, "args", None), "kwarg", None):
            yield from _entries_from_callers(site, file, scope)
    inside = file.evaluation_scope(node) is scope
    for mention in file.mentions_in(scope, node.id):
        if not isinstance(mention, ast.Name) or (inside and mention.lineno >= node.lineno):
            continue
        if lookup_bindings(file, mention, node.id)[1] is not scope:
            continue
        for name, put in _keys_changed_by_use(file, mention):
            if put is None:
                yield name, None, there
            elif _reaches_use(file, scope, mention, node):
                surely = there and not any(
                    isinstance(one, _BRANCHES) for one in _ancestors_in_scope(file, mention, scope)
                )
                yield name, Entry(site.program.value(file, put), surely, Place(file, mention)), there


def _field_names(site: Site, file: FileFacts, call: ast.Call) -> Iterator[str]:
    """The fields of an object whose dict is taken: `layout._asdict()`, `vars(layout)`, `dataclasses.asdict(layout)`."""
    of = None
    if last_name(call.func) == "_asdict" and isinstance(call.func, ast.Attribute):
        of = call.func.value
    elif last_name(call.func) in ("vars", "asdict") and len(call.args) == 1:
        of = call.args[0]
    if of is not None:
        for option in options(site.program.value(file, of)):
            made = option.by if isinstance(option, CallResult) else None
            if isinstance(made, ClassValue):
                for statement in made.node.body:
                    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                        yield statement.target.id


def _entries_from_callers(site: Site, file: FileFacts, scope: Scope) -> Iterator[tuple[str, Entry, bool]]:
    """Yield the entries that the visible calls pass to the `**kwargs` of a function."""
    node: ast.AST | None = scope.node
    own = {arg.arg for arg in _named_parameters(node)}
    if isinstance(node, ast.FunctionDef) and node.name == "__init__":
        node = file.parent(node)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for end in site.program.flow.in_sight(file, node).found:
        call = end.place.node
        if end.kind == "called" and isinstance(call, ast.Call):
            for one in call.keywords:
                if one.arg and one.arg not in own:
                    value = site.program.value(end.place.file, one.value)
                    yield one.arg, Entry(value, False, Place(end.place.file, one)), False


def _named_parameters(node: ast.AST | None) -> list[ast.arg]:
    """The parameters of a function that have a name of their own."""
    args = getattr(node, "args", None)
    return [*args.posonlyargs, *args.args, *args.kwonlyargs] if isinstance(args, ast.arguments) else []


def _keys_changed_by_use(file: FileFacts, mention: ast.Name) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield each key that one use of the dict sets, with its value, or deletes, with None."""
    outer = file.parent(mention)
    above = file.parent(outer) if outer is not None else None
    match outer, above:
        case ast.Subscript(value=whole, slice=ast.Constant(value=str(key))), _ if whole is mention:
            if isinstance(outer.ctx, ast.Del):
                yield key, None
            elif isinstance(above, ast.Assign) and outer in above.targets:
                yield key, above.value
        case ast.Attribute(attr="setdefault"), ast.Call(args=[ast.Constant(value=str(key)), value]):
            yield key, value
        case ast.Attribute(attr="pop"), ast.Call(args=[ast.Constant(value=str(key)), *_]):
            yield key, None
        case ast.Attribute(attr="update"), ast.Call():
            yield from _dict_entries(above)
        case ast.AugAssign(target=target, op=ast.BitOr(), value=value), _ if target is mention:
            yield from _dict_entries(value)


def _dict_entries(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Call):
        yield from ((one.arg, one.value) for one in node.keywords if one.arg)
        for given in node.args:
            yield from _dict_entries(given)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def may_have_hidden_keys(site: Site, file: FileFacts, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Return whether the dict may have keys that the text does not show."""
    if not depth:
        return True
    match node:
        case ast.Dict():
            known = all(key is None or isinstance(key, ast.Constant) for key in node.keys)
            inner = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
            return not known or any(may_have_hidden_keys(site, file, one, depth - 1) for one in inner)
        case ast.BinOp(op=ast.BitOr()):
            return any(may_have_hidden_keys(site, file, one, depth - 1) for one in (node.left, node.right))
        case ast.Call(func=ast.Name(id="dict")):
            inner = [*node.args, *(one.value for one in node.keywords if one.arg is None)]
            return any(may_have_hidden_keys(site, file, one, depth - 1) for one in inner)
        case ast.Call(func=ast.Attribute(attr="copy", value=value)):
            return may_have_hidden_keys(site, file, value, depth - 1)
        case ast.Name():
            return _may_name_have_hidden_keys(site, file, node, depth)
        case ast.Call():
            functions = options(site.program.value(file, node.func))
            return not functions or any(_may_result_have_hidden_keys(site, one, depth) for one in functions)
    return True


def _may_name_have_hidden_keys(site: Site, file: FileFacts, node: ast.Name, depth: int) -> bool:
    bindings, scope = lookup_bindings(file, node, node.id)
    if scope is None or not bindings:
        return True
    for binding in bindings:
        if (
            binding.kind != "assign"
            or binding.value is None
            or may_have_hidden_keys(site, file, binding.value, depth - 1)
        ):
            return True
    for mention in file.mentions_in(scope, node.id):
        outer = file.parent(mention)
        match outer, file.parent(outer) if outer is not None else None:
            case ast.Attribute(attr="update"), ast.Call() as call:
                inner = [*call.args, *(one.value for one in call.keywords if one.arg is None)]
                if any(may_have_hidden_keys(site, file, one, depth - 1) for one in inner):
                    return True
            case ast.Subscript(value=whole, slice=key, ctx=ast.Store()), _ if whole is mention:
                if not isinstance(key, ast.Constant):
                    return True
            case ast.Call() as call, _ if mention in call.args and not _copies_dict(call):
                return True  # whoever is given it may fill it
    return False


def _copies_dict(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("dict", "print", "len", "list", "sorted")


def _may_result_have_hidden_keys(site: Site, function: Value, depth: int) -> bool:
    if not isinstance(function, Function) or not isinstance(function.node, ast.FunctionDef):
        return True
    file = function.place.file
    returns = file.walk_scope(file.scope(function.node)).returns
    return not returns or any(
        not isinstance(one, ast.Return) or one.value is None or may_have_hidden_keys(site, file, one.value, depth - 1)
        for one in returns
    )


def _ancestors_in_scope(file: FileFacts, node: ast.AST, scope: Scope) -> list[ast.AST]:
    found = []
    for outer in file.ancestors(node):
        if outer is scope.node:
            break
        found.append(outer)
    return found


def _reaches_use(file: FileFacts, scope: Scope, change: ast.AST, use: ast.AST) -> bool:
    """Return whether a path leads from a change to the use, as far as blocks tell: not out of a branch that leaves,
    nor from one branch into another, which may have the opposite test.
    """
    before, after = _ancestors_in_scope(file, change, scope), _ancestors_in_scope(file, use, scope)
    mine = [one for one in before if one not in after]
    theirs = [one for one in after if one not in before]
    if any(isinstance(one, _BRANCHES) for one in mine) and any(isinstance(one, _BRANCHES) for one in theirs):
        return False
    shared = [one for one in before if one in after and isinstance(one, _BRANCHES)]
    if shared and _block_name(shared[0], [change, *before]) != _block_name(shared[0], [use, *after]):
        return False
    for outer in mine:
        if isinstance(outer, ast.If):
            block = getattr(outer, _block_name(outer, [change, *before]), None) or [outer]
            if isinstance(block[-1], _LEAVING):
                return False
    return True


def _block_name(owner: ast.AST, nodes: list[ast.AST]) -> str:
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        if any(one in nodes for one in getattr(owner, name, ())):
            return name
    return "test"


def is_none(entry: Entry) -> bool:
    """Return whether an entry is None, and so has no effect."""
    return entry.value == Constant(None)
