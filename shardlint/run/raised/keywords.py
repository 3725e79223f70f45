"""Keywords that a function of a library does not take on the installed release."""

from __future__ import annotations

import difflib

from shardlint.run.raised.explanation import Explanation, callee_text
from shardlint.run.raised.recognition import RecognisedError

_RENAMED = {
    "in_axis_resources": "in_shardings",
    "out_axis_resources": "out_shardings",
    "check_rep": "check_vma",
    "auto": "axis_names",
    "in_axis": "in_axes",
    "out_axis": "out_axes",
}


def explain_unknown_keyword(error: RecognisedError) -> Explanation | None:
    """A keyword that a function of the libraries does not take, and the nearest it takes."""
    call = error.error.failing_call
    if (
        call is None
        or not error.words
        or call.module.partition(".")[0] not in ("jax", "equinox", "flax", "haliax")
    ):
        return None
    word = error.words[0]
    near = difflib.get_close_matches(word, call.parameters, n=1)
    instead = _RENAMED[word] if _RENAMED.get(word) in call.parameters else near[0] if near else ""
    if word in call.parameters or not instead:
        return None
    return Explanation(f"{callee_text(call)} takes no keyword {word} on this release", help=f"write {instead}=")
