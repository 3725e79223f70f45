"""The scale of a count: how often it contains the number of processes, and the devices of one process."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.values import CallResult, options
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model import Program

Scale = tuple[int, int]
"""Powers of the number of processes, and of the number of devices of one."""
PROCESS, ALL, PROCESSES = (0, 1), (1, 1), (1, 0)
COUNTS: dict[str, Scale] = {
    "jax.device_count": ALL,
    "jax.local_device_count": PROCESS,
    "jax.process_count": PROCESSES,
    "jax.host_count": PROCESSES,
}
LISTS: dict[str, Scale] = {"jax.devices": ALL, "jax.local_devices": PROCESS}


def count_scale(program: Program, file: FileFacts, node: ast.expr) -> Scale | None:
    """The scale of a number of devices or processes that jax returns."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        return _scale_by_table(program, file, node.args[0], LISTS)
    return _scale_by_table(program, file, node, COUNTS)


def _scale_by_table(
    program: Program, file: FileFacts, node: ast.expr, table: dict[str, Scale]
) -> Scale | None:
    if not isinstance(node, ast.Call | ast.Name | ast.Attribute):
        return None
    found = {
        table.get(one.api) if isinstance(one, CallResult) and one.api is not None else None
        for one in options(program.value(file, node))
    }
    return found.pop() if len(found) == 1 else None
