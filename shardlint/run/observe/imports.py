"""Call back when a module has been imported, without a finder or loader that others would see."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .event_sink import silence_errors

_waiting: dict[str, list[Callable[[Any], None]]] = {}


class _Finder:
    """Stands first on `sys.meta_path`, finds nothing by itself, and has the module's own loader call back."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is cls or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                _run_installers(spec)
                return spec
        return None


def _run_installers(spec: Any) -> None:
    loader = spec.loader
    if loader is None or not hasattr(loader, "exec_module"):
        return
    run = loader.exec_module

    def exec_module(module: Any) -> None:
        vars(loader).pop("exec_module", None)
        run(module)
        for install in _waiting.pop(spec.name, ()):
            silence_errors(install)(module)
        if not _waiting and _Finder in sys.meta_path:
            sys.meta_path.remove(_Finder)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        return


def when(name: str, install: Callable[[Any], None]) -> None:
    """Call `install` with the module when it has been imported; now where it is there."""
    if name in sys.modules:
        silence_errors(install)(sys.modules[name])
        return
    _waiting.setdefault(name, []).append(install)
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
