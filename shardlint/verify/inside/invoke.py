"""Calling a fixture's function: under its context, with the mesh where it takes it, in float64 where it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from shardlint.verify.inside import devices, load, tree


def keyword_arguments(function: Any, args: Sequence[Any], mesh: Any) -> dict[str, Any]:
    """The keyword arguments a fixture's function is called with: the mesh, where it takes it."""
    return {"mesh": mesh} if load.takes_mesh(function, len(args)) else {}


def call_function(function: Callable[..., Any], args: Sequence[Any], mesh: Any, kind: str) -> Any:
    """Call a fixture's function and wait for its result."""
    entered, _ = devices.enter_mesh_context(kind, mesh)
    with entered:
        return jax.block_until_ready(function(*args, **keyword_arguments(function, args, mesh)))


def run_in_float64(hosts: list[Any], run: Callable[[list[Any]], Any]) -> tuple[Any, str, list[str]]:
    """Return the result of `run` for the arguments `hosts` cast up to float64, `"float64"`, and sentences for the
    report. If it cannot run so, use the arguments as they are and `"float32"`. Raises what `run` raises then.
    """
    jax.config.update("jax_enable_x64", True)
    try:
        return run([tree.map_arrays(tree.upcast_leaf, host) for host in hosts]), "float64", []
    except Exception as error:
        jax.config.update("jax_enable_x64", False)
        output = run(hosts)
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        return (
            output,
            "float32",
            [f"fn does not run in float64 ({words[:120]}); its own dtypes were compared"],
        )
