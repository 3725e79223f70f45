"""Where the arrays lay that a jitted function was first called with, and those it gave: for `first_calls` of a fixture.

Loaded by path beside `recorded.py`, in the program's own Python. Unlike an argument, this can always be written down.
"""

from __future__ import annotations

import os
from typing import Any

_LEAVES = 4000


def before(fun: Any, told: dict[str, Any] | None, args: Any, kwargs: Any, own: Any) -> dict[str, Any] | None:
    """Return the facts about a call, with the placements of its arguments. A library's wrapper around a function of
    the program's is marked as one (`own` tells whether a file is the program's).
    """
    try:
        return _facts_before_call(fun, told, args, kwargs, own)
    except Exception:  # an argument of a kind that jax cannot take apart
        return told


def _facts_before_call(
    whole: Any, told: dict[str, Any] | None, args: Any, kwargs: Any, own: Any
) -> dict[str, Any] | None:
    import jax

    fun, leaves = _program_function_inside(whole, own), jax.tree_util.tree_leaves((args, kwargs))
    if fun is None:
        return told
    code = fun.__code__
    where = {"file": os.path.abspath(code.co_filename), "name": fun.__qualname__, "line": code.co_firstlineno}  # noqa: PTH100
    if told is None and not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        why = "it is jitted through a library's wrapper (shard_map, vmap, nnx.jit), which cannot be recorded"
        told = {**where, "fun": whole, "skip": why}
    if told is None or "file" not in told:  # of a library
        return told
    found = [*_placed_arrays("args", args), *_placed_arrays("kwargs", kwargs)]
    given = {f"args/{at}": jax.tree_util.tree_leaves(one) for at, one in enumerate(args)}
    given |= {f"kwargs/{key}": jax.tree_util.tree_leaves(one) for key, one in kwargs.items()}
    return {**told, "arrived": {**where, "leaves": found}, "given": given}


def _program_function_inside(fun: Any, own: Any) -> Any:
    """The function of the program's own that a partial, or a wrapper of a library (`shard_map`), is of."""
    for _ in range(8):
        code = getattr(fun, "__code__", None)
        if code is not None and own(code.co_filename):
            return fun
        fun = getattr(fun, "func", None) or getattr(fun, "__wrapped__", None)
    return None


def after(told: dict[str, Any], outs: Any) -> None:
    """Add where the results lie, and which arguments were given up."""
    given, arrived = told.pop("given", {}), told.get("arrived")
    if arrived is None:
        return
    import jax

    try:
        arrived["leaves"] += _placed_arrays("result", outs)
        count = {
            path: sum(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)
            for path, leaves in given.items()
        }
        arrived["gone"] = {path: number for path, number in count.items() if number}
    except Exception:
        del told["arrived"]
    if len(arrived["leaves"]) > _LEAVES:
        told.pop("arrived", None)


def _placed_arrays(root: str, tree: Any) -> list[list[Any]]:
    """Path, spec and mesh of each array that lies on a mesh; random keys are left out."""
    import jax

    found = []
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        sharding: Any = getattr(leaf, "sharding", None)
        spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
        random = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)
        if not isinstance(leaf, jax.Array) or random or spec is None or mesh is None:
            continue
        name = "/".join(part for part in (root, path(keys)) if part)
        parts = [list(part) if isinstance(part, tuple) else part for part in spec]
        found.append([name, parts, {str(name): int(size) for name, size in dict(mesh.shape).items()}])
    return found


def path(keys: Any) -> str:
    """The path of a leaf: its keys, joined."""
    return "/".join(str(_key_as_text(key)) for key in keys)


def _key_as_text(key: Any) -> Any:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return key
