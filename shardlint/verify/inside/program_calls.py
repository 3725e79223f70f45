"""The compiled programs that one of several processes calls: from which line, with what, and what comes of it."""

from __future__ import annotations

import functools
import hashlib
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from shardlint.verify.inside import load, programs, tree
from shardlint.verify.texts import array_text
from shardlint.verify.working_directory import shown_path

_MOST = 1000


class Origins:
    """Origins of arrays, in words that are equal in all processes: an argument's name, or a digest of the program and
    of its arguments.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Callable[[], Any], str, str]] = {}

    def note_origin(self, array: Any, of: str, shown: str = "") -> None:
        """Say what an array was made of, and what a person calls it."""
        self._known[id(array)] = weakref.ref(array), of, shown

    def origin_of(self, array: Any) -> str:
        """Return its origin; "" if it is not known."""
        return self._entry_of_array(array)[0]

    def shown_name(self, array: Any) -> str:
        """Return its name for people; "" if there is none."""
        return self._entry_of_array(array)[1]

    def _entry_of_array(self, array: Any) -> tuple[str, str]:
        alive, of, shown = self._known.get(id(array), (lambda: None, "", ""))
        return (of, shown) if alive() is array else ("", "")


def watch_calls(tell: Callable[[dict[str, Any]], None], origins: Origins) -> None:
    """Have every call of a compiled program wait for its result, so that a process that hangs stands at
    the line that does, and tell of the first calls that several processes make together (see `consistency.Call`).

    Nothing public does: `jax_cpu_enable_async_dispatch` is about programs of one device. Where jax has
    moved what this takes hold of, a process that hangs stands at the end of `fn`.
    """
    try:
        from jax._src import pjit
        from jax._src.interpreters import pxla

        run = pxla.ExecuteReplicated.__call__
        pjit._get_fastpath_data  # noqa: B018  # both, or neither
    except (ImportError, AttributeError):
        return

    left = _MOST
    known: dict[int, tuple[Any, tuple[str, bool]]] = {}

    def program_of(executable: Any) -> tuple[str, bool]:
        # With what it is of, whose number another could have later.
        if id(executable) not in known:
            known[id(executable)] = executable, programs.program_fingerprint(executable)
        return known[id(executable)][1]

    @functools.wraps(run)
    def wait_and_call(self: Any, *args: Any) -> Any:
        nonlocal left
        if not left or not _is_shared(self, args):
            return jax.block_until_ready(run(self, *args))
        left -= 1
        digest_of, talks = program_of(self.xla_executable)
        shared = [one for one in args if _is_global(one)]
        of, names = [origins.origin_of(one) for one in shared], [origins.shown_name(one) for one in shared]
        call = {"name": str(self.name), "line": _users_line(), "program": digest_of, "talks": talks}
        call |= {"host": _host_numbers(args), "of": of, "names": names}
        tell(call)
        results = jax.block_until_ready(run(self, *args))
        cause = digest_array(
            np.frombuffer(repr([call["name"], digest_of, call["host"], of]).encode(), np.uint8)
        )
        for index, result in enumerate(results):
            if isinstance(result, jax.Array):
                origins.note_origin(result, f"{cause}[{index}]")
        return results

    pxla.ExecuteReplicated.__call__ = wait_and_call
    # The compiled fast path of a second call does not come by Python.
    pjit._get_fastpath_data = lambda *args, **keywords: None


def _is_global(value: Any) -> bool:
    return isinstance(value, jax.Array) and not value.is_fully_addressable


def _is_shared(program: Any, args: Sequence[Any]) -> bool:
    """Return whether a program runs on devices of several processes."""
    if any(map(_is_global, args)):
        return True
    shardings = getattr(getattr(program, "out_handler", None), "out_shardings", ())
    return any(not getattr(one, "is_fully_addressable", True) for one in shardings)


def _host_numbers(args: Sequence[Any]) -> list[list[str]]:
    """Type and digest of each argument that a process gives a shared program from what it alone has; jax takes it
    for the same in all.
    """
    found = []
    for one in args:
        if not _is_global(one):
            try:
                host = tree.to_host(one) if isinstance(one, jax.Array) else np.asarray(one)
                data = host.data if isinstance(host, tree.HostKey) else host
                found.append([array_text(str(data.dtype), data.shape), digest_array(data)])
            except Exception:  # a token, or what has no numbers
                found.append(["", ""])
    return found


def digest_array(data: Any) -> str:
    """The digest of an array's bytes."""
    return hashlib.blake2b(np.ascontiguousarray(np.asarray(data)).tobytes(), digest_size=16).hexdigest()


def _users_line() -> str:
    frame = sys._getframe(1)
    while frame is not None:
        if load.is_theirs(frame.f_code.co_filename):
            return f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
