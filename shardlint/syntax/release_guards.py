"""Code that runs on some releases only: version tests, `try/except ImportError`, `hasattr`."""

from __future__ import annotations

import ast
import itertools

from shardlint.syntax import FileFacts, called_name
from shardlint.syntax.nodes import walk_nodes

_IMPORT_ERRORS = {
    "ImportError",
    "ModuleNotFoundError",
    "AttributeError",
    "Exception",
    "BaseException",
    "TypeError",
}
_VERSION_WORDS = ("version", "TYPE_CHECKING", "find_spec", "signature", "_is_available", "sys.modules")
_ASKING = ("hasattr", "getattr")
# Whether an object has one of these tells an array from a number, a tree or a wrapper, on any release.
_OF_KINDS = {
    "sharding",
    "shape",
    "dtype",
    "ndim",
    "size",
    "addressable_shards",
    "is_fully_addressable",
    "is_fully_replicated",
    "value",
    "items",
    "keys",
    "spec",
    "mesh",
    "__len__",
    "__array__",
}


def is_release_guarded(file: FileFacts, node: ast.AST) -> bool:
    """Return whether the code runs only on some releases: in a try that catches its failure, or after a version
    test.
    """
    return file.remember_for_node("guarded", node, lambda: _is_release_guarded(file, node))


def _is_release_guarded(file: FileFacts, node: ast.AST) -> bool:
    """An expression is asked about up to its statement; what is said of a statement is kept for all in it."""
    inner = node
    for outer in file.ancestors(node):
        if isinstance(inner, ast.stmt):
            break
        if _guards_child(file, outer, inner):
            return True
        inner = outer
    if isinstance(inner, ast.stmt) and _is_in_guard(file, inner):
        return True
    return _has_early_exit(file, node)


def _is_in_guard(file: FileFacts, statement: ast.stmt) -> bool:
    """Kept for the statements on the way out too: each arm of a long `elif` stands in the ones before."""
    known = file.in_a_guard
    passed: list[ast.stmt] = []
    inner: ast.AST = statement
    found = False
    for outer in itertools.chain(file.ancestors(statement), (None,)):
        if isinstance(inner, ast.stmt):
            if inner in known:
                found = known[inner]
                break
            passed.append(inner)
        if outer is None:
            break
        if _guards_child(file, outer, inner):
            found = True
            break
        inner = outer
    known.update(dict.fromkeys(passed, found))
    return found


def _guards_child(file: FileFacts, outer: ast.AST, inner: ast.AST) -> bool:
    """Return whether a node makes its direct child run on some releases only."""
    if isinstance(outer, ast.Try | ast.TryStar):
        catches = any(_catches_import_error(handler) for handler in outer.handlers)
        # The handler is a guarded place too: it is what runs when the try did not work.
        return catches and (inner in outer.body or inner in outer.handlers or inner in outer.orelse)
    if isinstance(outer, ast.With):
        return any(_suppresses_import_error(item.context_expr) for item in outer.items)
    if isinstance(outer, ast.If | ast.IfExp):
        return inner is not outer.test and _tests_version(file, outer.test)
    if isinstance(outer, ast.While):
        return _tests_version(file, outer.test)
    if isinstance(outer, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return _chosen_by_version(file, outer)
    return False


def _chosen_by_version(file: FileFacts, function: ast.AST) -> bool:
    decorators = getattr(function, "decorator_list", [])
    return any("skip" in file.source_text(decorator) and _tests_version(file, decorator) for decorator in decorators)


def _has_early_exit(file: FileFacts, node: ast.AST) -> bool:
    """`if jax.__version__ < ...: return` earlier in the same function guards what follows."""
    function = file.evaluation_scope(node).enclosing_function()
    body = function.body_statements if function is not None else file.module.body_statements
    scope = function or file.module
    if scope not in file.exits:
        exits = (one.lineno for one in body if isinstance(one, ast.If) and _leaves_by_version(file, one))
        file.exits[scope] = next(exits, None)
    first = file.exits[scope]
    return first is not None and first < getattr(node, "lineno", 0)


def _leaves_by_version(file: FileFacts, statement: ast.If) -> bool:
    last = statement.body[-1]
    leaves = isinstance(last, ast.Return | ast.Raise | ast.Continue) or (
        isinstance(last, ast.Expr) and called_name(last.value) in ("skip", "exit", "skipTest", "importorskip")
    )
    return leaves and _tests_version(file, statement.test)


def _tests_version(file: FileFacts, test: ast.expr) -> bool:
    """Kept: all that stands under a test asks for it."""
    if test not in file.version_tests:
        file.version_tests[test] = _is_version_test(file, test)
    return file.version_tests[test]


def _is_version_test(file: FileFacts, test: ast.expr) -> bool:
    if _speaks_of_release(file, test):
        return True
    # A flag set from such a test: `if HAS_SHARD_MAP:`
    for part in walk_nodes(test):
        if isinstance(part, ast.Name):
            for binding in file.bindings(file.module, part.id):
                if binding.kind == "assign" and binding.value is not None:
                    if _speaks_of_release(file, binding.value) or isinstance(binding.value, ast.Constant):
                        return len(file.bindings(file.module, part.id)) > 1 or not isinstance(
                            binding.value, ast.Constant
                        )
    return False


def _speaks_of_release(file: FileFacts, node: ast.expr) -> bool:
    """Return whether an expression reads a version, or tests if a module (not `self`) has an attribute."""
    text = file.source_text(node).lower()
    if any(word.lower() in text for word in _VERSION_WORDS):
        return True
    if not any(word in text for word in _ASKING):
        return False
    asked = [
        part
        for part in walk_nodes(node)
        if isinstance(part, ast.Call) and called_name(part) in _ASKING and part.args
    ]
    return not all(_asks_for_a_kind(file, part) for part in asked)


def _asks_for_a_kind(file: FileFacts, call: ast.Call) -> bool:
    """`hasattr(self, "step")`, `hasattr(x, "sharding")` of an object: neither has to do with a release."""
    subject, name = call.args[0], call.args[1] if len(call.args) > 1 else None
    if isinstance(subject, ast.Name) and subject.id in ("self", "cls"):
        return True
    while isinstance(subject, ast.Attribute | ast.Subscript | ast.Call):
        subject = subject.func if isinstance(subject, ast.Call) else subject.value
    return (
        isinstance(name, ast.Constant)
        and name.value in _OF_KINDS
        and isinstance(subject, ast.Name)
        and all(one.kind != "import" for one in file.bindings(file.module, subject.id))
    )


def _suppresses_import_error(context: ast.expr) -> bool:
    """`with contextlib.suppress(ImportError)`."""
    return (
        isinstance(context, ast.Call)
        and called_name(context) == "suppress"
        and any(called_name(kind) in _IMPORT_ERRORS for kind in context.args)
    )


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(called_name(kind) in _IMPORT_ERRORS for kind in types)
