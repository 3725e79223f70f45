"""Where arrays of the host come from that a file gave: the line that has them loaded, and keeps what it gets."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import ran
from .frames import is_user, kept_at
from .program import nbytes
from .sink import quiet

_LEAST = 4096
_LEAVES = 400


def _loads(module: Any, names: tuple[str, ...]) -> None:
    for name in names:
        if hasattr(module, name):
            setattr(module, name, _loading(getattr(module, name), f"{module.__name__.partition('.')[0]}.{name}"))


def _loading(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def loaded(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        caller = sys._getframe(1)
        if is_user(caller.f_code.co_filename):
            _note(result, caller, name)
        return result

    return loaded


@quiet
def _note(result: Any, caller: Any, name: str) -> None:
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree_util"):
        return
    lines: list[Any] = []
    for one in jax.tree_util.tree_leaves(result)[:_LEAVES]:
        if hasattr(one, "__array_interface__") and nbytes(one) >= _LEAST:
            lines = lines or kept_at(caller)
            ran.note_host(one, lines, name)


def _archives(module: Any) -> None:
    """The arrays of a `.npz` are read one by one."""
    kind: Any = module.NpzFile
    kind.__getitem__ = _loading(kind.__getitem__, "np.load")


INSTALLERS: dict[str, Callable[[Any], None]] = {
    "pickle": lambda module: _loads(module, ("load", "loads")),
    "numpy": lambda module: _loads(module, ("load",)),
    "numpy.lib.npyio": _archives,
    "joblib": lambda module: _loads(module, ("load",)),
    "safetensors.numpy": lambda module: _loads(module, ("load", "load_file")),
    "flax.serialization": lambda module: _loads(module, ("from_bytes", "msgpack_restore", "from_state_dict")),
}
