"""Regular expressions over the paths of trees, as partition rules use them."""

from __future__ import annotations

import re

from shardlint.layouts.values import Call, Unknown, Value
from shardlint.libraries.registry import register_function


@register_function("re match search fullmatch")
def match_text(call: Call) -> Value:
    """Return whether a pattern matches a text. A match that `re.search` finds and `re.match` misses is noted."""
    pattern, text = call.argument_at(0, "pattern"), call.argument_at(1, "string")
    if not isinstance(pattern, str) or not isinstance(text, str):
        return Unknown("a match")
    try:
        expression = re.compile(pattern)
    except re.error:
        return Unknown("a pattern that is none")
    found = getattr(expression, call.function_name)(text) is not None
    if call.name == "re.match":
        call.interpreter.note_match(call.place, pattern, text, found, expression.search(text) is not None)
    return True if found else None
