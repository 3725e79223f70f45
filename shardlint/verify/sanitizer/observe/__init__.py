"""What a program under `shardlint run` is watched for while it runs, from inside its own processes.

Loaded by path from the sitecustomize of the run, under a name of its own: the program's Python need not have
shardlint, and may be older than it. So nothing here imports shardlint, each module installs a few hooks and
writes what it sees as lines of JSON (`sink`), and no hook changes what the hooked function takes, does or gives.
"""

from __future__ import annotations

from typing import Any

from . import environ, imports, libraries, lowered, mapped, meshes, placed, ran, warned


def begin() -> None:
    """Watch this process: its environment now, jax and the libraries on it when they are imported."""
    environ.begin()
    imports.when("jax", _with_jax)
    for name, install in libraries.INSTALLERS.items():
        imports.when(name, install)
    imports.when("jax.experimental.shard_map", mapped.install_old)


def _with_jax(jax: Any) -> None:
    for part in (warned, meshes, placed, mapped, lowered, ran, environ):
        part.install(jax)
