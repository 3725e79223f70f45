"""Mistakes of jit, placement, meshes and donation, put into code that is right."""

from __future__ import annotations

from collections.abc import Iterator

from mutated import Change, Operator, Text, calls


def _placed(text: Text) -> Iterator[Change]:
    """`jax.jit(init, out_shardings=...)` becomes `jax.jit(init)`."""
    for call in calls(text, "jit"):
        if not call.args or "init" not in text.of(call.args[0]).lower():
            continue
        for keyword in call.keywords:
            if keyword.arg == "out_shardings":
                start = text.bytes.rindex(b"out_shardings", 0, text.span(keyword.value)[0])
                before = text.bytes[:start].rstrip()
                yield call.lineno, len(before.removesuffix(b",")), text.span(keyword.value)[1], ""


OPERATORS = {
    "made with no out_shardings": Operator((b"out_shardings",), _placed),
}
