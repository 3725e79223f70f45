"""Where arrays come from that a file gave: the line that has them loaded, and keeps what it gets."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import first_runs
from .event_sink import silence_errors
from .frames import is_user, lines_at_call
from .program import bytes_when_whole

ORBAX = "orbax restore"
_LEAST = 4096
_LEAVES = 400


def _watch_loaders(module: Any, names: tuple[str, ...]) -> None:
    for name in names:
        if hasattr(module, name):
            setattr(module, name, _wrap_loader(getattr(module, name), f"{module.__name__.partition('.')[0]}.{name}"))


def _wrap_loader(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def load_and_note(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        caller = sys._getframe(1)
        if is_user(caller.f_code.co_filename):
            _note_restored(result, caller, name)
        return result

    return load_and_note


@silence_errors
def _note_restored(result: Any, caller: Any, name: str) -> None:
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree_util"):
        return
    lines: list[Any] = []
    # What orbax restores of several items is no tree of jax.
    result = dict(result.items()) if name == ORBAX and hasattr(result, "items") else result
    for one in jax.tree_util.tree_leaves(result)[:_LEAVES]:
        known = hasattr(one, "__array_interface__") or (name == ORBAX and hasattr(one, "addressable_shards"))
        if known and bytes_when_whole(one) >= _LEAST:
            lines = lines or lines_at_call(caller)
            first_runs.note_host(one, lines, name)


def _watch_orbax(module: Any) -> None:
    """Checkpointers return arrays as they were saved, or as the target says. Those of each kind call others."""
    for name in ("Checkpointer", "StandardCheckpointer", "AsyncCheckpointer", "CheckpointManager"):
        kind: Any = getattr(module, name, None)
        if "restore" in vars(kind or object):
            kind.restore = _wrap_loader(kind.restore, ORBAX)


def _watch_archives(module: Any) -> None:
    """The arrays of a `.npz` are read one by one."""
    kind: Any = module.NpzFile
    kind.__getitem__ = _wrap_loader(kind.__getitem__, "np.load")


INSTALLERS: dict[str, Callable[[Any], None]] = {
    "pickle": lambda module: _watch_loaders(module, ("load", "loads")),
    "numpy": lambda module: _watch_loaders(module, ("load",)),
    "numpy.lib.npyio": _watch_archives,
    "joblib": lambda module: _watch_loaders(module, ("load",)),
    "safetensors.numpy": lambda module: _watch_loaders(module, ("load", "load_file")),
    "orbax.checkpoint": _watch_orbax,
    "flax.serialization": lambda module: _watch_loaders(module, ("from_bytes", "msgpack_restore", "from_state_dict")),
}
