"""Hooks that observe a program under `shardlint run` from inside its own processes.

Loaded by path from the sitecustomize of the run, under a name of its own: the program's Python need not have
shardlint, and may be older than it. So nothing here imports shardlint, each module installs a few hooks and
writes what it sees as lines of JSON (`sink`), and no hook changes what the hooked function takes, does or gives.
"""

from __future__ import annotations

import os
from typing import Any

from . import (
    boundaries,
    eager_regions,
    environment_writes,
    first_rows,
    first_runs,
    host_arrays,
    imports,
    jax_warnings,
    later_calls,
    libraries,
    lowered_programs,
    mapped_functions,
    meshes,
    processes,
    requested_placements,
    restored_arrays,
    sharding_origins,
)
from .event_sink import silence_errors


def begin() -> None:
    """Watch this process: its environment now, jax and the libraries on it when they are imported."""
    environment_writes.begin()
    if "SHARDLINT_RUN_PROCESS" in os.environ:
        processes.begin()
    imports.when("jax._src.named_sharding", sharding_origins.install_checks)
    imports.when("jax", _install_with_jax)
    for name, install in (*libraries.INSTALLERS.items(), *restored_arrays.INSTALLERS.items()):
        imports.when(name, install)
    imports.when("jax.experimental.shard_map", mapped_functions.install_old)


def _install_with_jax(jax: Any) -> None:
    _keep_out_of_sight()
    for part in (
        boundaries,
        jax_warnings,
        meshes,
        requested_placements,
        mapped_functions,
        lowered_programs,
        first_runs,
        later_calls,
        first_rows,
        environment_writes,
        eager_regions,
        sharding_origins,
        host_arrays,
    ):
        silence_errors(part.install)(jax)
    if "SHARDLINT_RUN_PROCESS" in os.environ:
        silence_errors(processes.install)(jax)


@silence_errors
def _keep_out_of_sight() -> None:
    """Exclude the frames of this package from jax's tracebacks and from the source lines of operations."""
    from jax._src import source_info_util, traceback_util

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    source_info_util.register_exclusion(here)
    for name in sorted(os.listdir(here)):  # noqa: PTH208
        if name.endswith(".py"):
            traceback_util.register_exclusion(os.path.join(here, name))  # noqa: PTH118
