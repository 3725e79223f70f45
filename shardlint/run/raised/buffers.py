"""Arrays that are gone, or never were: donated, given twice, leaked from a trace."""

from __future__ import annotations

import re

from shardlint.run.raised.explanation import Explanation, callee, some
from shardlint.run.raised.kinds import Recognised
from shardlint.run.raised.record import Leaf


def deleted(found: Recognised) -> Explanation | None:
    """Arrays of the call that are no more."""
    call = found.error.call
    gone = [leaf for leaf in (call.leaves if call is not None else []) if leaf.deleted]
    if not gone:
        return None
    one = gone[0].where
    return Explanation(
        f"{callee(call)} gets {'an array' if len(gone) == 1 else f'{len(gone)} arrays'} whose buffer an "
        "earlier call donated or deleted",
        some([leaf.text() for leaf in gone]),
        f"use the result of that call; to keep the old one, donate jnp.copy({one}), or do not donate it",
        live=True,
    )


def twice(found: Recognised) -> Explanation | None:
    """Two arguments that are one buffer, donated."""
    said = re.search(r"flattened argument (\d+), .*?first use: (\d+)", found.error.message)
    call = found.error.call
    if said is None or call is None or not call.whole:
        return None
    flat = [leaf for given in sorted(call.arguments, key=lambda one: one.keyword) for leaf in given.leaves]
    if max(int(said[1]), int(said[2])) >= len(flat):
        return None
    second, first = flat[int(said[1])], flat[int(said[2])]
    if second.shape != first.shape or second.dtype != first.dtype:  # some were not handed on
        return None

    def named(leaf: Leaf) -> str:
        for_it = f" (for {leaf.parameter})" if leaf.parameter and leaf.parameter != leaf.where else ""
        return f"{leaf.text()}{for_it}"

    return Explanation(
        f"{callee(call)} gets one buffer in two arguments, and donates it",
        (named(first), named(second)),
        f"copy one of them: jnp.copy({second.where})",
        live=True,
    )


def leaked(found: Recognised) -> Explanation | None:
    """A value of a trace that had ended."""
    said = re.search(
        r"leaked intermediate value was created on line (\S+?):(\d+)(?::\d+)? \((.*?)\)", found.error.message
    )
    if said is None:
        return None
    return Explanation(
        "a tracer is used after its trace has ended: the value was created in traced code "
        f"({said[1].rpartition('/')[2]}:{said[2]} in {said[3]}) and stored",
        help="return it from the traced function, and use the result of the call",
    )
