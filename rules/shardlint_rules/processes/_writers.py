"""What speaks for writes being left to one process: other writes of the file, and the family of a class."""

from __future__ import annotations

import ast

from shardlint.model.process.processes import first, guard
from shardlint.model.reach import lookup
from shardlint.model.values import Function, Place
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import Scope, last_name
from shardlint.syntax.nodes import walk

WRITES = regex(r"(?i)(?:^|[._])(?:save|dump|write|makedirs|mkdir|open|rename|copy\w*|rmtree|remove)\w*$")
_FAMILY = regex(r"\w{3,}(?:Handler|Writer|Checkpointer|Saver|Store|Exporter|Callback|Hook|Serializer)$")
_PRINTS = regex(r"(?i)^(?:print|[\w.]*(?:log(?:ger|ging)?|writer|wandb|tqdm|pbar|progress|console)\w*(?:\.\w+)?)$")
_CALLS = 10
_METHOD = regex(r"^_?(?:async_)?(?:save|write|dump|export|store|commit|finalize|serialize)")
_ONE = regex(r"(?i)primary|main|master|chief|lead|process|host|rank|wandb\.run|first|writer|enabled|log")
_STEP = regex(r"^[^()]*%[^()]*(?:==|!=|<|>)[^()]*$|^\([^()]*\) *%[^()]*(?:==|!=)[^()]*$")
_ADDRESSABLE = "addressable_"
_TOGETHER = ("process_index(", "sync_global_devices", "sync_global_processes")


def beside(site: Site, function: Scope) -> tuple[str, str]:
    """What speaks, outside of its function, for a write being meant for one process: the form, and words for it."""
    if maybe_one(site):
        return "", ""
    why = "" if handed_on(site, function) else called_beside(site, function)
    if why:
        return "called", why
    why = family(site)
    return ("family", why) if why else ("", "")


def printed_beside(site: Site, function: Scope) -> str:
    """A function on the way here that leaves what it prints or logs to one process, as words."""
    owner = function.parent.node if function.parent is not None else None
    node, callers = function.node, [(site.file, function)]
    if isinstance(owner, ast.ClassDef) and getattr(node, "name", "") == "__init__":
        node = owner
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ""
    ends = site.program.flow.in_sight(site.file, node)
    for end in ends.found[:_CALLS]:
        around = end.place.scope.function() if end.kind == "called" else None
        if end.kind == "called" and guard(site.program, end.place.file, end.place.node) is not None:
            return ""
        if around is not None and not site.program.project.is_test(end.place.file.path):
            callers.append((end.place.file, around))
    for file, scope in callers:
        for statement in scope.statements:
            if not isinstance(statement, ast.If):
                continue
            found = first(site.program, Place(file, statement.test))
            if found is None or not found.truth:
                continue
            calls = [one for part in statement.body for one in walk(part) if isinstance(one, ast.Call)]
            if any(_PRINTS.search(file.text(one.func)) for one in calls):
                where = f"{file.path.name}:{statement.lineno}" if file is not site.file else f"line {statement.lineno}"
                return f"`{getattr(scope.node, 'name', 'the module')}` prints on one process only ({where})"
    return ""


def maybe_one(site: Site, known: frozenset[str] = frozenset()) -> bool:
    """Whether a condition around a place may be about processes, by its words; `known` are those that are not."""
    return any(
        isinstance(outer, ast.If | ast.IfExp)
        and "__name__" not in site.text(outer.test)
        and any(_ONE.search(one) and not _STEP.search(one) for one in parts_of(site, outer.test) if one not in known)
        for outer in site.file.ancestors(site.syntax)
    )


def of_own_shards(site: Site) -> bool:
    """Whether a condition around a place asks what only the process has that holds some shard.

    `frames` is one, where `frames.append(slice_of(state))` fills it, and `slice_of` looks at `addressable_shards` and
    gives None on the others.
    """
    return any(
        isinstance(outer, ast.If) and any(_own_shards(site, one, 0) for one in walk(outer.test))
        for outer in site.file.ancestors(site.syntax)
    )


def _own_shards(site: Site, node: ast.AST, depth: int) -> bool:
    match node:
        case ast.Call():
            found = site.value(node.func)
            made = found.place.file.text(found.node) if isinstance(found, Function) and found.node is not None else ""
            return _ADDRESSABLE in made and "return None" in made
        case ast.Attribute(attr=attr):
            return attr.startswith(_ADDRESSABLE)
        case ast.Name(id=name) if depth < 3 and isinstance(node.ctx, ast.Load):
            scope = site.file.home(node).function()
            bindings, _ = lookup(site.file, node, name)
            made_of = [one.value for one in bindings if one.kind == "assign" and one.value is not None]
            for call in site.file.walked(scope).calls if scope is not None else ():
                func = call.func
                fills = isinstance(func, ast.Attribute) and func.attr in ("append", "extend")
                if fills and isinstance(func, ast.Attribute) and last_name(func.value) == name:
                    made_of += call.args
            return any(_own_shards(site, part, depth + 1) for one in made_of for part in walk(one))
    return False


def parts_of(site: Site, test: ast.expr) -> list[str]:
    """The conditions that must all hold for one to do so, as text."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return [site.text(one) for one in parts]


def handed_on(site: Site, function: Scope) -> bool:
    """Whether a function, or one around it, is handed on, or called under a condition that one process meets."""
    around: Scope | None = function
    while around is not None and around.kind == "function":
        for end in site.program.flow.ends(site.file, around.node).found:
            place = end.place
            if end.kind != "called" or guard(site.program, place.file, place.node) is not None:
                return True
        around = around.parent
    return False


def called_beside(site: Site, function: Scope) -> str:
    """A caller that leaves another write to one process, as words."""
    for end in site.program.flow.ends(site.file, function.node).found:
        file = end.place.file
        caller = file.home(end.place.node).function()
        for statement in caller.statements if caller is not None else ():
            found = (
                first(site.program, Place(file, statement.test)) if isinstance(statement, ast.If) else None
            )
            if found is None or not isinstance(statement, ast.If) or caller is None:
                continue
            calls = [one for part in statement.body for one in walk(part) if isinstance(one, ast.Call)]
            if found.truth and any(WRITES.search(file.text(one.func)) for one in calls):
                return f"`{caller.name}`, which calls `{function.name}`, leaves another write to one process"
    return ""


def family(site: Site) -> str:
    """Another class of the same base that meets at a barrier or asks for its process, as words."""
    method = site.scope.function()
    cls = method.parent.node if method is not None and method.parent is not None else None
    if method is None or not isinstance(cls, ast.ClassDef) or not _METHOD.search(method.name):
        return ""
    for base in cls.bases:
        name = last_name(base)
        if not _FAMILY.match(name):
            continue
        pattern = rf"(?:)class \w+\((?:\w+\.)*\w*{name}\b"
        for other in site.program.project.holding(site.file.path, (pattern,)):
            if other is None or other is site.file or site.program.project.is_test(other.path):
                continue
            if any(other.says(text) for text in _TOGETHER):
                return f"another class of `{name}` in {other.path.name} leaves work to one process"
    return ""
