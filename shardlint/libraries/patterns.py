"""Paths of trees, and regular expressions over them, as partition rules use them."""

from __future__ import annotations

import re

from shardlint.layouts.values import AnyTree, Call, DictValue, Instance, Unknown, Value, children, rebuilt
from shardlint.libraries.registry import function


@function("jax.tree map_with_path", "jax.tree_util tree_map_with_path")
def map_with_path(call: Call) -> Value:
    """A function of the path and the leaf, applied to each leaf."""
    if len(call.args) != 2 or isinstance(call.args[1], Unknown | AnyTree):
        return AnyTree(Unknown())

    def walk(tree: Value, path: tuple[Value, ...]) -> Value:
        parts = children(tree)
        if parts is not None:
            kind = "name" if isinstance(tree, Instance) else "key" if isinstance(tree, DictValue) else "idx"
            return rebuilt(tree, [walk(part, (*path, Instance(None, {kind: key}))) for key, part in parts])
        return None if tree is None else call.interpreter.call(call.args[0], (path, tree), {}, call.place)

    return walk(call.args[1], ())


@function("re match search fullmatch")
def matched(call: Call) -> Value:
    """Whether a pattern matches a text; what `re.match` never matches, and `re.search` would, is noted."""
    pattern, text = call.get(0, "pattern"), call.get(1, "string")
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


@function("jax.tree_util keystr", "jax.tree keystr")
def keystr(call: Call) -> Value:
    """A path as jax spells it."""
    parts = call.get(0, "keys")
    if not isinstance(parts, tuple) or call.keywords:
        return Unknown("a path")
    return "".join(_shown(one) for one in parts)


def _shown(part: Value) -> str:
    values = part.attributes if isinstance(part, Instance) else {}
    if "name" in values:
        return f".{values['name']}"
    return f"[{values.get('key', values.get('idx'))!r}]"
