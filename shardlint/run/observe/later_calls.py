"""Calls of a program after its first, for what only a later call can show: jax runs them past Python otherwise."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .event_sink import silence_errors

Check = Callable[[Sequence[Any], list[Any]], bool]

_CALLS = 512
_waiting: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
_given: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def install(jax: Any) -> None:
    """Have jax ask Python for each call of a program that is waited for."""
    from jax._src import pjit

    original = pjit._get_fastpath_data

    @functools.wraps(original)
    def get_fastpath_data(executable: Any, *args: Any, **kwargs: Any) -> Any:
        if _waiting and getattr(executable, "unsafe_call", None) in _waiting:
            return None
        return original(executable, *args, **kwargs)

    pjit._get_fastpath_data = get_fastpath_data


def watch_calls(executable: Any, check: Check) -> None:
    """Have the arguments of some more calls checked, until `check` has seen what it waits for."""
    _waiting.setdefault(executable, [0, []])[1].append(check)


@silence_errors
def check_call(executable: Any, args: Sequence[Any], lines: list[Any]) -> None:
    """Hand on the arguments of a call: of all of the first ones, and then of fewer and fewer."""
    known = _waiting.get(executable)
    if known is None:
        return
    known[0] += 1
    if known[0] < 64 or known[0].bit_count() == 1:
        known[1] = [check for check in known[1] if not check(args, lines)]
    if not known[1] or known[0] >= _CALLS:
        del _waiting[executable]


@silence_errors
def note_results(executable: Any, results: Sequence[Any]) -> None:
    """Remember the results of a call of a program whose calls are checked."""
    if executable in _waiting:
        _given[executable] = [weakref.ref(one) for one in results]


def last_result(executable: Any, at: int) -> Any:
    """Return a result of the last call, by its number; None if nothing holds it any more."""
    known = _given.get(executable, ())
    return known[at]() if at < len(known) else None
