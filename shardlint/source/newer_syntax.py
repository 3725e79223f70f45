"""Test for code that only a newer Python can parse."""

from __future__ import annotations

import re

from shardlint.source.text import Source

_SIZE, _LINE, _DEPTH, _STACK = 300_000, 2_000, 200, 256 * 2**20


def explain_newer_syntax(source: Source) -> str:
    """Return the reason to believe that a newer Python could parse the text, or "". libcst knows later grammars than
    the running Python.

    libcst overruns its stack, and ends the process, on nesting that Python refuses politely: it is asked only about
    what people write, on a stack that holds more than that.
    """
    text = source.text
    if len(text) > _SIZE or max(map(len, text.splitlines())) > _LINE or _bracket_depth(text) > _DEPTH:
        return ""
    import threading

    import libcst

    parsed: list[bool] = []

    def parse_source() -> None:
        try:
            libcst.parse_module(text)
        except Exception:
            return
        parsed.append(True)

    before = threading.stack_size(_STACK)
    try:
        thread = threading.Thread(target=parse_source)
        thread.start()
        thread.join()
    except RuntimeError:  # no memory for the stack: no hint
        return ""
    finally:
        threading.stack_size(before)
    return "; a newer Python can parse it: run shardlint with the project's Python" if parsed else ""


def _bracket_depth(text: str) -> int:
    """How deep brackets nest, those in strings counted too."""
    depth = deepest = 0
    for bracket in re.findall(r"[(\[{)\]}]", text):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest
