"""Whether a block may come to run a call elsewhere in the project, told by names.

From the call outwards: the functions it stands in, whoever mentions those, and what they are kept as. A block that
mentions none of these names does not run the call. What cannot be followed counts as if a block did.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.model.reach import lookup
from shardlint.model.values import Api, ClassValue, Function, Place, Transformed, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.nodes import walk

_NAMES = 200
_FILES = 60
_READS = ("get", "items", "values", "pop", "copy", "lower", "compile")
_FILLS = ("append", "extend", "insert", "add", "setdefault", "update")


@dataclass(frozen=True)
class _Named:
    """A name by which the call is run. `gives`: what it gives when it is called runs the call in turn.

    `where` is the scope of a variable; without one it is looked for everywhere.
    """

    name: str
    gives: bool
    where: tuple[FileFacts, Scope] | None = None


class _Lost(Exception):
    """The call is handed to what is not known."""


def may_run(site: Site, blocks: Sequence[Place], call: Place) -> bool:
    """Whether one of some `with` blocks may run a call."""
    parts = [part for block in blocks for part in walk(block.node)]
    if call.node in parts or any(isinstance(part, ast.Yield | ast.YieldFrom | ast.Await) for part in parts):
        return True
    said = {_name(part) for part in parts} - {""}
    try:
        return any(name in said for name in _reaching(site, call))
    except _Lost:
        return True


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _reaching(site: Site, call: Place) -> Iterator[str]:
    """The names by which the call is run, from the nearest outwards."""
    seen: dict[_Named, None] = dict.fromkeys(_owners(site, call.file, call.node, True, False))
    for named in (queue := list(seen)):  # grows
        if named.name in ("", "self", "cls"):
            continue
        yield named.name
        if len(queue) > _NAMES:
            raise _Lost
        for file, node in _mentions(site, call, named):
            for one in _from(site, file, node, named.gives):
                if one not in seen:
                    seen[one] = None
                    queue.append(one)


def _mentions(site: Site, call: Place, named: _Named) -> Iterator[tuple[FileFacts, ast.AST]]:
    """Where a name stands."""
    if named.where is not None:
        file, scope = named.where
        for node in file.mentions_in(scope, named.name):
            if isinstance(node, ast.Name) and lookup(file, node, named.name)[1] is scope:
                yield file, node
        return
    if len(site.program.project.mentioning(call.file.path, named.name)) > _FILES:
        raise _Lost
    for found in site.program.project.naming(call.file.path, named.name, joined=True):
        if found is None:
            raise _Lost
        for node in found.mentions(named.name):
            if not isinstance(node, ast.Name) or not _local(found, node):
                yield found, node


def _local(file: FileFacts, node: ast.Name) -> bool:
    """Whether a name is a variable of a function."""
    scope = lookup(file, node, node.id)[1]
    return scope is not None and scope.kind not in ("module", "class")


def _bound(file: FileFacts, target: ast.AST, gives: bool) -> _Named:
    """What a target of an assignment is known by."""
    scope = file.home(target)
    if isinstance(target, ast.Name) and scope.kind not in ("module", "class"):
        return _Named(target.id, gives, (file, lookup(file, target, target.id)[1] or scope))
    return _Named(_name(target), gives)


def _from(site: Site, file: FileFacts, node: ast.AST, gives: bool) -> Iterator[_Named]:
    """The names that one mention of a name leads on to."""
    if isinstance(node, ast.alias):
        if node.asname:
            yield _Named(node.asname, gives)
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        held = _held(file, node)
        outer = file.parent(held) if held is not None else None
        if isinstance(outer, ast.Call) and outer.func is held:
            yield from _owners(site, file, outer, gives, False)
        elif held is not None:
            yield from _owners(site, file, held, True, gives)


def _held(file: FileFacts, node: ast.AST) -> ast.AST | None:
    """The expression around a name that is what it names, or a part of that; None for a module or object of it."""
    outer = file.parent(node)
    if isinstance(outer, ast.Subscript) and outer.value is node:
        return _held(file, outer)
    if isinstance(outer, ast.Attribute):
        call = file.parent(outer)
        if outer.attr in _READS and isinstance(call, ast.Call) and call.func is outer:
            return _held(file, call)
        return None
    return node


def _owners(site: Site, file: FileFacts, node: ast.AST, kept: bool, gives: bool) -> Iterator[_Named]:
    """The function an expression is run by and, where its value runs the call in turn, what that is `kept` as."""
    inner = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.Lambda):
            kept, gives = True, kept
        elif isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            owner = file.parent(outer)
            if outer.name.startswith("__") and isinstance(owner, ast.ClassDef):
                yield _Named(owner.name, True)
                return
            scope = file.home(outer)
            where = (file, scope) if scope.kind == "function" else None
            yield _Named(outer.name, kept and isinstance(inner, ast.Return), where)
            return
        elif kept and isinstance(outer, ast.Call) and inner is not outer.func:
            yield from _handed(site, file, outer, inner, gives)
        elif kept:
            parts = (part for target in _targets(outer) for part in walk(target))
            yield from (_bound(file, part, gives) for part in parts if _name(part))
        inner = outer


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a part of a statement binds its value to."""
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target) | ast.NamedExpr(target=target) | ast.AugAssign(target=target):
            return [target]
        case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
            return [target]
        case ast.withitem(optional_vars=ast.expr() as target):
            return [target]
    return []


def _handed(site: Site, file: FileFacts, call: ast.Call, given: ast.AST, gives: bool) -> Iterator[_Named]:
    """What a function that is given something calls it."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS:
        yield _bound(file, call.func.value, gives)
        return
    for callee in options(site.program.value(file, call.func)):
        while isinstance(callee, Transformed):
            callee = callee.inner
        if isinstance(callee, ClassValue):
            fields = [part.target for part in callee.node.body if isinstance(part, ast.AnnAssign)]
            yield from (_Named(_name(target), gives) for target in fields)
            made = [part for part in callee.node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
            yield from (one for part in made for one in _parameters(callee.place.file, part, gives))
        elif isinstance(callee, Function):
            yield from _parameters(callee.place.file, callee.node, gives)
        elif isinstance(given, ast.keyword) and given.arg is not None:
            yield _Named(given.arg, gives)
        elif not isinstance(callee, Api):
            raise _Lost


def _parameters(
    file: FileFacts, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, gives: bool
) -> Iterator[_Named]:
    args, scope = node.args, file.scope(node)
    stars = [one for one in (args.vararg, args.kwarg) if one is not None]
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, *stars):
        yield _Named(arg.arg, gives, (file, scope))
