"""Tables of which the first rule that matches counts, and the rules in them that none gets to."""

from __future__ import annotations

import ast
import re

from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes

_ALL = frozenset((".*", "^.*", ".*$", "^.*$", "(.*)", ".*?", ".+", "^.+$", ""))
_GROUP = re.compile(r"\([^()]*\)|\[[^\]]*\]")
_LOOKS = ("re.search", "re.match", "re.fullmatch", ".search(", ".match(", ".fullmatch(")
_WAYS = ("search", "match", "fullmatch")
_LOGICAL = ("logical_to_mesh", "logical_axis_rules", "with_logical_")


def find_hidden_rule(
    rules: tuple[tuple[str, tuple[str, ...]], ...],
) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """A rule for a logical name that ends what a later one would do: the name, its axes, and what that one adds.

    A rule is passed by only where one of its mesh axes is taken; then one with these axes and more is as well.
    """
    for at, (name, axes) in enumerate(rules):
        for other, more in rules[at + 1 :]:
            if other == name and set(axes) < set(more):
                return name, axes, tuple(sorted(set(more) - set(axes)))
    return None


def is_for_linen_only(site: Site) -> bool:
    """Return whether logical names are looked up by Linen alone. For NNX the last rule of a name counts."""
    project, path = site.program.project, site.file.path
    return (
        project.is_text_in_files(path, "linen")
        and project.is_text_in_files(path, *_LOGICAL)
        and not project.is_text_in_files(path, "nnx")
    )


def lookup_orders(site: Site) -> frozenset[str]:
    """How the project's loops look up names in tables of expressions; none where the last one that matches counts."""
    found: set[str] = set()
    for file in site.program.project.files_holding(site.file.path, _LOOKS):
        if file is None:
            return frozenset()
        for node in walk_nodes(file.tree):
            way = _loop_lookup_order(node)
            if way == "last":
                return frozenset()
            if way is not None:
                found.add(way)
    return frozenset(found)


def _loop_lookup_order(node: ast.AST) -> str | None:
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
    calls = [one for one in walk_nodes(inside) if isinstance(one, ast.Call) and _looked_up_name(one) == name]
    if not calls:
        return None
    if isinstance(node, ast.For) and not any(isinstance(one, ast.Return | ast.Break) for one in walk_nodes(inside)):
        return "last"
    return last_name(calls[0].func)


def _looked_up_name(call: ast.Call) -> str | None:
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


def pattern_covers(early: str, late: str, way: str) -> bool:
    """Return whether an expression matches whatever a later one of the table does."""
    if early in _ALL:
        return True
    # What matches from anywhere to the end: `kernel$`, `.*/kernel$`.
    anywhere = way == "search" or early.startswith(".*")
    ends = early.removeprefix(".*")
    if anywhere and ends.endswith("$") and not re.search(r"[.^$*+?{}\[\]\\|()]", ends[:-1]):
        last = _fixed_pieces(late)[-1:] if late.endswith("$") and not late.endswith("\\$") else []
        return bool(last) and late.endswith(f"{last[0]}$") and last[0].endswith(ends[:-1])
    if re.search(r"[.^$*+?{}\[\]\\|()]", early):
        return False  # more than plain text
    if way == "fullmatch":
        return early == late
    runs = _fixed_pieces(late)
    if way == "match":
        return bool(runs) and late.startswith(runs[0]) and runs[0].startswith(early)
    return any(early in one for one in runs)


def _fixed_pieces(pattern: str) -> list[str]:
    """The pieces of plain text that all an expression matches has in it."""
    bare = _GROUP.sub("\0", pattern.removeprefix("^").removesuffix("$"))
    if any(one in bare for one in "()[]|"):
        return []
    bare = re.sub(r"\\.", "\0", bare)
    bare = re.sub(r".(?:[*?]|\{[^}]*\})", "\0", bare, flags=re.S)
    return [one for one in re.split(r"[\0.+^$]", bare) if one]
