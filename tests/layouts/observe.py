"""Runs programs one statement at a time and says what jax makes of each: run by itself, with jax.

Each line of standard input is a list of texts. For each of them a line of standard output has a list of answers: the
arrays of a text by line, and the error that ended it. Of a function of the text, the arrays are those it traced last.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import json
import os
import signal
import sys
import warnings
from collections.abc import Generator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

# A list of programs that takes longer has one without end: the process is ended.
_SECONDS = 900
# Of `shardlint run`, by its file: the Python that runs this has no shardlint.
_LAYOUT = Path(__file__).parents[2] / "shardlint" / "run" / "observe" / "layout.py"
describe = SourceFileLoader("layout", str(_LAYOUT)).load_module().describe_array


def main() -> None:
    """Answer until nothing more is asked."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # XLA writes there too
    import jax  # noqa: F401

    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    for line in sys.stdin:
        signal.alarm(_SECONDS)
        answers.write(json.dumps([observed(text) for text in json.loads(line)]) + "\n")
        answers.flush()


class _Notes(ast.NodeTransformer):
    """Has each assignment of a function tell what it bound."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        body: list[ast.stmt] = []
        for one in node.body:
            body.append(one)
            if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
                note = ast.parse(f"__note__({one.lineno}, {one.targets[0].id})").body[0]
                body.append(ast.copy_location(note, one))
        node.body = body
        return ast.fix_missing_locations(node)


def observed(text: str) -> dict[str, Any]:
    """The arrays of a program by the lines that bind them, and the first error.

    `line` is the statement that raises, `inner` the line of the program that does, and `ran` the lines of functions
    that came to an end within that statement.
    """
    found: dict[str, Any] = {}
    ran: list[int] = []

    def note(line: int, value: Any) -> None:
        ran.append(line)
        found.update({f"{line}{path}": described for path, described in _arrays(value)})

    names: dict[str, Any] = {"__note__": note, "__name__": "program"}
    sys.modules["program"] = sys.modules[__name__]  # dataclasses look there for types
    with contextlib.closing(_flat(ast.parse(text).body, names)) as statements:
        for statement in statements:
            ran.clear()
            try:
                exec(compile(ast.Module([_Notes().visit(statement)], []), "program", "exec"), names)
            except Exception as error:
                return {
                    "arrays": found,
                    "line": statement.lineno,
                    "inner": _inner_line(error),
                    "ran": sorted(set(ran)),
                    "error": type(error).__name__,
                    "said": str(error)[:300],
                }
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                for path, described in _arrays(names[statement.targets[0].id]):
                    found[f"{statement.lineno}{path}"] = described
    return {"arrays": found, "line": 0, "inner": 0, "ran": [], "error": "", "said": ""}


def _inner_line(error: BaseException) -> int:
    line, entry = 0, error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == "program":
            line = entry.tb_lineno
        entry = entry.tb_next
    return line


def _flat(body: list[ast.stmt], names: dict[str, Any]) -> Generator[ast.stmt, None, None]:
    """The statements one by one, those of a `with` within its contexts."""
    for statement in body:
        if isinstance(statement, ast.With):
            with contextlib.ExitStack() as entered:
                for item in statement.items:
                    context = compile(ast.Expression(item.context_expr), "program", "eval")
                    entered.enter_context(eval(context, names))
                yield from statement.body
        else:
            yield statement


def _arrays(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """The arrays of a value with their paths: of itself, or of a dict or tuple, a module or an array of haliax."""
    import jax

    kinds = jax.Array, jax.ShapeDtypeStruct
    module = hasattr(type(value), "__dataclass_fields__") and type(value).__module__.startswith(("haliax", "program"))
    if isinstance(value, dict | tuple | list) or module:
        flat = jax.tree_util.tree_flatten_with_path(value, is_leaf=_is_named)[0]
        found = [(f"{jax.tree_util.keystr(path)}{'.array' * _is_named(one)}", one) for path, one in flat]
        return [(path, _described(one)) for path, one in found if isinstance(getattr(one, "array", one), kinds)]
    return [("", _described(value))] if isinstance(value, kinds) else []


def _is_named(value: Any) -> bool:
    """Return whether a value is an array of haliax, which has an axis for each dimension."""
    return hasattr(value, "array") and hasattr(value, "axes")


def _described(value: Any) -> dict[str, Any]:
    if _is_named(value):
        return {**describe(value.array), "axes": [[one.name, one.size] for one in value.axes]}
    described: dict[str, Any] = describe(value)
    return described


if __name__ == "__main__":
    main()
