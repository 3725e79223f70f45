"""Two arguments of a call that are one buffer, which it donates."""

from __future__ import annotations

import re

from shardlint.run.raised.explanation import Explanation, callee_text
from shardlint.run.raised.recognition import RecognisedError
from shardlint.run.raised.record import Leaf


def explain_donated_twice(error: RecognisedError) -> Explanation | None:
    """Two arguments that are one buffer, donated."""
    said = re.search(r"flattened argument (\d+), .*?first use: (\d+)", error.error.message)
    call = error.error.failing_call
    if said is None or call is None or not call.is_complete:
        return None
    flat = [leaf for given in sorted(call.arguments, key=lambda one: one.keyword) for leaf in given.leaves]
    if max(int(said[1]), int(said[2])) >= len(flat):
        return None
    second, first = flat[int(said[1])], flat[int(said[2])]
    if second.shape != first.shape or second.dtype != first.dtype:  # some were not handed on
        return None

    def name_leaf(leaf: Leaf) -> str:
        for_it = f" (for {leaf.parameter})" if leaf.parameter and leaf.parameter != leaf.where else ""
        return f"{leaf.describe_leaf()}{for_it}"

    return Explanation(
        f"{callee_text(call)} gets one buffer in two arguments, and donates it",
        (name_leaf(first), name_leaf(second)),
        f"pass a copy of one: jnp.copy({second.where})",
        live=True,
    )
