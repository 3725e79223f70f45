"""Logical names of an array's dimensions, written out for a class of the project, of which one is there twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import ClassValue, Function, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk

_ONE = r"(?:None|\"\w++\"|'\w++')\s*+,"
LINE = rf"[^#\n]*\(\s*+(?:{_ONE}\s*+)*?[\"'](\w++)[\"']\s*+,(?:\s*+{_ONE})*?\s*+[\"']\1[\"']"
"""A tuple of names with one of them twice."""
_AXES = regex(r"(?:^|_)(?:logical_)?(?:axes|axis_names|names|logical)$")
_RULES = regex(r"class \w*(?:Rules|Axes|Axis|Sharding)\w*|\w*rules\w*\s*=\s*[\[({]")


def twice_named(site: Site) -> Iterator[tuple[ast.expr, str, str]]:
    """Tuples of names with the name that is there twice, and how the class is called that takes them."""
    for call in walk(site.syntax):
        if not isinstance(call, ast.Call):
            continue
        shapes = [
            one for one in (*call.args, *(one.value for one in call.keywords)) if isinstance(one, ast.Tuple)
        ]
        for given in shapes:
            names = [
                one.value
                for one in given.elts
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
            again = next((one for one in names if names.count(one) > 1), None)
            if again is None or not _only_names(given) or again not in _ruled(site):
                continue
            keyword = next((one.arg for one in call.keywords if one.value is given), None)
            beside = any(
                one is not given and len(one.elts) == len(given.elts) and not _only_names(one)
                for one in shapes
            )
            if not (beside or (keyword is not None and _AXES.search(keyword))):
                continue
            if all(isinstance(one, ClassValue | Function) for one in options(site.value(call.func))):
                yield given, again, last_name(call.func)


def _only_names(node: ast.Tuple) -> bool:
    """Whether all parts are strings or None."""
    return all(isinstance(one, ast.Constant) and isinstance(one.value, str | None) for one in node.elts)


def _ruled(site: Site) -> frozenset[str]:
    """The names that the file's own classes and tables of rules have."""
    return site.program.once(site.file, "names with rules", lambda: frozenset(_names(site)))


def _names(site: Site) -> Iterator[str]:
    if not _RULES.search(site.file.source.text):
        return
    for node in site.file.tree.body:
        if isinstance(node, ast.ClassDef) and _RULES.search(f"class {node.name}"):
            yield from (
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            )
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if "rules" in last_name(target).lower() and isinstance(node.value, ast.Tuple | ast.List):
                for pair in node.value.elts:
                    if isinstance(pair, ast.Tuple) and pair.elts and isinstance(pair.elts[0], ast.Constant):
                        yield str(pair.elts[0].value)
