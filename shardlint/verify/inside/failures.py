"""Exceptions as failures."""

from __future__ import annotations

from shardlint.verify.inside import load
from shardlint.verify.inside.errors import cut, told
from shardlint.verify.report import Failure


def failure_of(error: BaseException) -> Failure:
    """The failure an exception becomes."""
    text = told(error).strip()
    lines = text.splitlines()
    if len(lines) > 6:
        text = "\n".join([*lines[:6], f"... ({len(lines) - 6} more lines)"])
    where = load.blame(error)
    return Failure(
        "raised", f"raised {type(error).__name__}: {cut(text)}" + (f"\nat {where}" if where else "")
    )
