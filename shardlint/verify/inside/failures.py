"""Exceptions as failures."""

from __future__ import annotations

from shardlint.verify.inside import load
from shardlint.verify.inside.errors import cut_text, safe_text
from shardlint.verify.report import Failure


def failure_from_exception(error: BaseException) -> Failure:
    """The failure an exception becomes."""
    text = safe_text(error).strip()
    lines = text.splitlines()
    if len(lines) > 6:
        text = "\n".join([*lines[:6], f"... ({len(lines) - 6} more lines)"])
    where = load.blame_line(error)
    return Failure(
        "raised", f"raised {type(error).__name__}: {cut_text(text)}" + (f"\nat {where}" if where else "")
    )
