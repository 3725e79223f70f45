"""Where what is seen goes: a file of JSON lines for each process, written at once, for a program may be killed."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from typing import Any

_MOST = 4000
_TESTS = 4
_seen: dict[str, set[str]] = {}
still: list[bool] = []
"""Not empty while functions are run that the program did not ask for."""


def write_event(kind: str, **facts: Any) -> None:
    """One thing that was seen; the same thing is written once, under pytest once for each of the first tests."""
    if still:
        return
    text = json.dumps({"kind": kind, **facts}, sort_keys=True, default=str)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    tests = _seen.setdefault(text, set()) if text in _seen or len(_seen) < _MOST else None
    if tests is None or test in tests or len(tests) >= _TESTS:
        return
    tests.add(test)
    if test:
        text = json.dumps({"kind": kind, "test": test, **facts}, sort_keys=True, default=str)
    folder = os.environ.get("SHARDLINT_RUN_FOLDER")
    if folder:
        place = os.path.join(folder, "observed")  # noqa: PTH118  # pathlib costs an import
        os.makedirs(place, exist_ok=True)  # noqa: PTH103
        with open(os.path.join(place, f"{os.getpid()}.jsonl"), "a", encoding="utf-8") as file:  # noqa: PTH118, PTH123
            file.write(text + "\n")


def silence_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, of which no failure reaches the program: what cannot be seen is not reported."""

    @functools.wraps(function)
    def try_quietly(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if os.environ.get("SHARDLINT_RUN_DEBUG"):
                import traceback

                traceback.print_exc()
            write_event("failed", where=function.__qualname__, error=f"{type(error).__name__}: {error}"[:200])
            return None

    return try_quietly
