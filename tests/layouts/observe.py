"""Runs programs one statement at a time and says what jax makes of each: run by itself, with jax.

Standard input is a list of texts, standard output a list with, for each, its arrays by line and the error that ended it.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import sys
import warnings
from collections.abc import Generator
from typing import Any


def main() -> None:
    """Run all of them."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # XLA writes there too
    json.dump([observed(text) for text in json.load(sys.stdin)], answers)
    answers.close()


def observed(text: str) -> dict[str, Any]:
    """The arrays of a program by the lines that bind them, and the first error."""
    names: dict[str, Any] = {}
    found: dict[str, Any] = {}
    with contextlib.closing(_flat(ast.parse(text).body, names)) as statements:
        for statement in statements:
            try:
                exec(compile(ast.Module([statement], []), "program", "exec"), names)
            except Exception as error:
                kind = type(error)
                return {
                    "arrays": found,
                    "line": statement.lineno,
                    "error": kind.__name__,
                    "said": str(error)[:300],
                }
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                for path, described in _arrays(names[statement.targets[0].id]):
                    found[f"{statement.lineno}{path}"] = described
    return {"arrays": found, "line": 0, "error": "", "said": ""}


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
    """The arrays of a value with their paths: of itself, or of a dict or tuple."""
    import jax

    if isinstance(value, dict | tuple):
        flat = jax.tree_util.tree_flatten_with_path(value)[0]
        kinds = jax.Array, jax.ShapeDtypeStruct
        return [(jax.tree_util.keystr(path), _described(one)) for path, one in flat if isinstance(one, kinds)]
    return [("", _described(value))] if isinstance(value, jax.Array) else []


def _described(value: Any) -> dict[str, Any]:
    import jax

    if isinstance(value, jax.ShapeDtypeStruct):
        unknown = dict.fromkeys(("spec", "memory", "device", "committed"))
        return {"shape": list(value.shape), "dtype": str(value.dtype), **unknown}
    sharding = value.sharding
    spec = None
    if isinstance(sharding, jax.sharding.NamedSharding):
        entries = [one if isinstance(one, tuple) else () if one is None else (one,) for one in sharding.spec]
        spec = [list(one) for one in (*entries, *((),) * (value.ndim - len(entries)))]
    devices = sorted(device.id for device in sharding.device_set)
    return {
        "shape": list(value.shape),
        "spec": spec,
        "memory": sharding.memory_kind,
        "device": devices[0] if len(devices) == 1 else None,
        "committed": bool(value.committed),
        "dtype": str(value.dtype),
    }


if __name__ == "__main__":
    main()
