"""Recording of the results of functions that jit and place arrays inside, such as those that make a training state.

Loaded by path beside `recorded.py`, in the program's own Python. Needs `sys.monitoring` (Python 3.12 on).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

_MOST = 40
_TOOL = 4
_JITS = 2


class Returned:
    """Functions that are running, and with what they were called; `tell` is given them when they return."""

    def __init__(self, tell: Callable[[Any, dict[str, Any], Any], None], count: Callable[[], int]) -> None:
        """`count` says how many jits were called so far."""
        self.tell, self.count = tell, count
        self.running: dict[types.CodeType, tuple[Any, dict[str, Any], int]] = {}
        self.done: set[Any] = set()
        self.monitor: Any = None

    def watch(self, of: Any, given: dict[str, Any]) -> None:
        """Look on when a function that runs now returns, the first time."""
        monitor = getattr(sys, "monitoring", None)
        code = of.__code__
        if (
            monitor is None
            or (code, _class_of_method(of)) in self.done
            or code in self.running
            or len(self.running) >= _MOST
        ):
            return
        if self.monitor is None:
            if monitor.get_tool(_TOOL) is not None:
                return
            monitor.use_tool_id(_TOOL, "shardlint")
            monitor.register_callback(_TOOL, monitor.events.PY_RETURN, self._on_return)
            self.monitor = monitor
        self.running[code] = of, given, self.count()
        monitor.set_local_events(_TOOL, code, monitor.events.PY_RETURN)

    def _on_return(self, code: types.CodeType, offset: int, value: Any) -> None:
        known = self.running.pop(code, None)
        if known is None:
            return
        self.done.add((code, _class_of_method(known[0])))
        self.monitor.set_local_events(_TOOL, code, self.monitor.events.NO_EVENTS)
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        of, given, before = known
        # A program's whole work is no place to look at.
        alone = frame is None or frame.f_back is None or frame.f_back.f_code.co_name == "<module>"
        if code.co_name != "main" and not (alone and self.count() > before + _JITS):
            self.tell(of, given, value)


def _class_of_method(of: Any) -> Any:
    """The class of which a function is a method; None of others."""
    return getattr(of, "__self__", None)
