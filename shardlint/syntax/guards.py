"""Code that is guarded: errors that a test expects, and branches that test a parameter."""

from __future__ import annotations

import ast

from shardlint.syntax import FileFacts, called_name
from shardlint.syntax.nodes import walk_nodes

_EXPECTING = {
    "raises",
    "assertRaises",
    "assertRaisesRegex",
    "assert_raises",
    "assertWarns",
    "assertWarnsRegex",
    "warns",
    "deprecated_call",
}
# One of these stands in every file in which an error or a warning is expected.
_EXPECTING_TEXTS = ("aises", "assert_raises", "arns", "deprecated_call", "xfail")


def expected_to_fail(file: FileFacts, node: ast.AST) -> bool:
    """Return whether the code is in a block or call that expects an error or warning (`pytest.raises`,
    `assertRaises`).
    """
    return file.remember_for_node("expected to fail", node, lambda: _expected_to_fail(file, node))


def _expected_to_fail(file: FileFacts, node: ast.AST) -> bool:
    if not any(map(file.contains_text, _EXPECTING_TEXTS)):
        return False
    for outer in file.ancestors(node):
        if isinstance(outer, ast.With | ast.AsyncWith):
            if any(called_name(item.context_expr) in _EXPECTING for item in outer.items):
                return True
        elif (isinstance(outer, ast.Call) and called_name(outer) in _EXPECTING) or (
            isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
            and any("xfail" in file.source_text(decorator) for decorator in outer.decorator_list)
        ):
            return True
    # A function made only to be called inside such a block.
    function = file.evaluation_scope(node).enclosing_function()
    if function is not None and function.kind == "function" and function.parent is not None:
        uses = [use for use in file.find_mentions(function.name) if isinstance(use, ast.Name)]
        if uses and function.parent.kind == "function":
            return all(_is_failure_expected(file, use) for use in uses)
    return False


def _is_failure_expected(file: FileFacts, node: ast.AST) -> bool:
    for outer in file.ancestors(node):
        if isinstance(outer, ast.With) and any(
            called_name(item.context_expr) in _EXPECTING for item in outer.items
        ):
            return True
        if isinstance(outer, ast.Call) and called_name(outer) in _EXPECTING:
            return True
    return False


def is_branch_tested(file: FileFacts, node: ast.AST) -> bool:
    """Return whether a branch around a node, or an earlier one that returns, tests a parameter of its function.

    Then a call that is seen may be one that does not come this way.
    """
    function = file.evaluation_scope(node).enclosing_function()
    if function is None:
        return False
    args = getattr(function.node, "args", None)
    names = {arg.arg for arg in walk_nodes(args) if isinstance(arg, ast.arg)} if args is not None else set()
    line = getattr(node, "lineno", 0)
    around = set(file.ancestors(node))
    for part in walk_nodes(function.node):
        if isinstance(part, ast.If | ast.IfExp | ast.While | ast.Match):
            test = part.subject if isinstance(part, ast.Match) else part.test
            leaves = isinstance(part, ast.If) and isinstance(
                part.body[-1], ast.Return | ast.Raise | ast.Continue
            )
            if part in around or (leaves and part.lineno < line):
                if any(isinstance(name, ast.Name) and name.id in names for name in walk_nodes(test)):
                    return True
    return False
