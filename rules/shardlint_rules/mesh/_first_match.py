"""Tables of which the first rule that matches counts, and the rules in them that none gets to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk

_ALL = frozenset((".*", "^.*", ".*$", "^.*$", "(.*)", ".*?", ".+", "^.+$", ""))
_GROUP = re.compile(r"\([^()]*\)|\[[^\]]*\]")
_LOOKS = ("re.search", "re.match", "re.fullmatch", ".search(", ".match(", ".fullmatch(")
_WAYS = ("search", "match", "fullmatch")
_LOGICAL = ("logical_to_mesh", "logical_axis_rules", "with_logical_")


class Pair(NamedTuple):
    """A logical name and the mesh axes it stands for, as written."""

    node: ast.expr
    name: str
    axes: frozenset[str]


def hidden(table: ast.expr) -> Iterator[tuple[Pair, Pair]]:
    """Rules of Linen for logical names that end what a later one of the same name would do, each with that one.

    A rule is passed by only where one of its mesh axes is taken; then one with these axes and more is as well.
    """
    yield from _hidden(table.elts if isinstance(table, ast.List | ast.Tuple) else [])


def _hidden(rules: list[ast.expr]) -> Iterator[tuple[Pair, Pair]]:
    pairs = [_pair(one) for one in rules]
    known = [one for one in pairs if one is not None]
    if len(known) < len(pairs):
        return
    for at, one in enumerate(known):
        later = next(
            (each for each in known[at + 1 :] if each.name == one.name and one.axes < each.axes), None
        )
        if later is not None:
            yield one, later


def hidden_by_joining(file: FileFacts) -> list[tuple[Pair, Pair]]:
    """The same of lists of a file that it joins: `RULES = ACTIVATIONS + WEIGHTS`, `[*ACTIVATIONS, *WEIGHTS]`."""
    return file.remembered("rules that are joined", file.tree, lambda: list(_of_joined(file)))


def _of_joined(file: FileFacts) -> Iterator[tuple[Pair, Pair]]:
    for node in walk(file.tree):
        outer = file.parent(node) if isinstance(node, ast.BinOp) else None
        if isinstance(node, ast.BinOp) and isinstance(outer, ast.BinOp):
            continue  # part of a longer sum
        if isinstance(node, ast.BinOp | ast.List | ast.Tuple):
            rules = _rules(file, node)
            if (rules and not isinstance(node, ast.List | ast.Tuple)) or any(
                isinstance(one, ast.Starred) for one in getattr(node, "elts", ())
            ):
                yield from _hidden(rules or [])


def _rules(file: FileFacts, node: ast.expr, depth: int = 6) -> list[ast.expr] | None:
    """The rules of a list, of lists that are joined, or of the one that a name of the file stands for."""
    if depth == 0:
        return None
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            found: list[ast.expr] = []
            for part in parts:
                inner = _rules(file, part.value, depth - 1) if isinstance(part, ast.Starred) else [part]
                if inner is None:
                    return None
                found += inner
            return found
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            one, two = _rules(file, left, depth - 1), _rules(file, right, depth - 1)
            return None if one is None or two is None else one + two
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner], keywords=[]):
            return _rules(file, inner, depth - 1)
        case ast.Name(id=name):
            bindings = file.bindings(file.module, name)
            value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
            return _rules(file, value, depth - 1) if isinstance(value, ast.expr) else None
    return None


def hidden_of(
    rules: tuple[tuple[str, tuple[str, ...]], ...],
) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """The same of rules that are known by value: the name, the axes of the first, and what a later one adds."""
    for at, (name, axes) in enumerate(rules):
        for other, more in rules[at + 1 :]:
            if other == name and set(axes) < set(more):
                return name, axes, tuple(sorted(set(more) - set(axes)))
    return None


def _pair(node: ast.expr) -> Pair | None:
    if not isinstance(node, ast.Tuple | ast.List) or len(node.elts) != 2:
        return None
    name, axes = node.elts
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    parts = axes.elts if isinstance(axes, ast.Tuple | ast.List) else [axes]
    values = [one.value if isinstance(one, ast.Constant) else ... for one in parts]
    if not all(one is None or isinstance(one, str) for one in values):
        return None
    return Pair(node, name.value, frozenset(one for one in values if isinstance(one, str)))


def of_linen(site: Site) -> bool:
    """Whether logical names are looked up by Linen alone. For NNX the last rule of a name counts."""
    project, path = site.program.project, site.file.path
    return project.holds(path, "linen") and project.holds(path, *_LOGICAL) and not project.holds(path, "nnx")


def ways(site: Site) -> frozenset[str]:
    """How the project's loops look up names in tables of expressions; none where the last one that matches counts."""
    found: set[str] = set()
    for file in site.program.project.holding(site.file.path, _LOOKS):
        if file is None:
            return frozenset()
        for node in walk(file.tree):
            way = _way(node)
            if way == "last":
                return frozenset()
            if way is not None:
                found.add(way)
    return frozenset(found)


def _way(node: ast.AST) -> str | None:
    """How a loop over pairs looks up the first of the two; `last` where it goes on after it has found one."""
    inside: ast.AST = node
    if isinstance(node, ast.For):
        target, inside = node.target, ast.Module(node.body, [])
    elif isinstance(node, ast.GeneratorExp | ast.ListComp) and len(node.generators) == 1:
        target = node.generators[0].target
    else:
        return None
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(target.elts[0], ast.Name):
        return None
    name = target.elts[0].id
    calls = [one for one in walk(inside) if isinstance(one, ast.Call) and looked_up(one) == name]
    if not calls:
        return None
    if isinstance(node, ast.For) and not any(isinstance(one, ast.Return | ast.Break) for one in walk(inside)):
        return "last"
    return last_name(calls[0].func)


def looked_up(call: ast.Call) -> str | None:
    """The name of the expression that is tried: NAME of `re.search(NAME, x)` or `re.compile(NAME).search(x)`."""
    if last_name(call.func) not in _WAYS or not call.args:
        return None
    on = call.func.value if isinstance(call.func, ast.Attribute) else None
    tried: ast.AST = call.args[0]
    if on is not None and not (isinstance(on, ast.Name) and on.id in ("re", "regex")):
        tried = on
    if isinstance(tried, ast.Call) and tried.args:
        tried = tried.args[0]
    return tried.id if isinstance(tried, ast.Name) else None


def covers(early: str, late: str, way: str) -> bool:
    """Whether an expression matches whatever a later one of the table does."""
    if early in _ALL:
        return True
    # What matches from anywhere to the end: `kernel$`, `.*/kernel$`.
    anywhere = way == "search" or early.startswith(".*")
    ends = early.removeprefix(".*")
    if anywhere and ends.endswith("$") and not re.search(r"[.^$*+?{}\[\]\\|()]", ends[:-1]):
        last = _fixed(late)[-1:] if late.endswith("$") and not late.endswith("\\$") else []
        return bool(last) and late.endswith(f"{last[0]}$") and last[0].endswith(ends[:-1])
    if re.search(r"[.^$*+?{}\[\]\\|()]", early):
        return False  # more than plain text
    if way == "fullmatch":
        return early == late
    runs = _fixed(late)
    if way == "match":
        return bool(runs) and late.startswith(runs[0]) and runs[0].startswith(early)
    return any(early in one for one in runs)


def _fixed(pattern: str) -> list[str]:
    """The pieces of plain text that all an expression matches has in it."""
    bare = _GROUP.sub("\0", pattern.removeprefix("^").removesuffix("$"))
    if any(one in bare for one in "()[]|"):
        return []
    bare = re.sub(r"\\.", "\0", bare)
    bare = re.sub(r".(?:[*?]|\{[^}]*\})", "\0", bare, flags=re.S)
    return [one for one in re.split(r"[\0.+^$]", bare) if one]


def inner_only(site: Site, step: str) -> bool:
    """Whether a layer of this name is made by classes alone that other classes of the project make."""
    made = False
    for file in site.program.project.holding(site.file.path, (step,)):
        if file is None:
            return False
        for owner in _makers(file, step):
            made = True
            if owner is None or not _made_by_another(site, owner):
                return False
    return made


def _makers(file: FileFacts, step: str) -> Iterator[str | None]:
    for node in walk(file.tree):
        if isinstance(node, ast.keyword):
            made = node.arg == "name" and isinstance(node.value, ast.Constant) and node.value.value == step
        else:
            made = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == step
        if made:
            owner = next((one.name for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
            yield owner


def _made_by_another(site: Site, name: str) -> bool:
    """Whether a class is made in the methods of other classes, and nowhere else."""
    found = False
    for file in site.program.project.holding(site.file.path, (name,)):
        if file is None:
            return False
        for node in file.mentions(name):
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            owner = next((one.name for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
            if owner is None:
                return False
            found = found or owner != name
    return found
