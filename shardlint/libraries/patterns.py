"""Paths of trees, and regular expressions over them, as partition rules use them."""

from __future__ import annotations

import re
from typing import Any

from shardlint.layouts.values import AnyTree, Call, DictValue, Instance, ListValue, Unknown, Value, is_tree
from shardlint.libraries.registry import function


@function("jax.tree map_with_path", "jax.tree_util tree_map_with_path")
def map_with_path(call: Call) -> Value:
    """A function of the path and the leaf, applied to each leaf."""
    if len(call.args) != 2 or isinstance(call.args[1], Unknown | AnyTree):
        return AnyTree(Unknown())

    def walk(value: Value, path: tuple[Value, ...]) -> Value:
        match value:
            case tuple():
                return tuple(walk(item, (*path, _key("idx", place))) for place, item in enumerate(value))
            case ListValue(items=items, open=more):
                return ListValue(
                    [walk(item, (*path, _key("idx", place))) for place, item in enumerate(items)], more
                )
            case DictValue(entries=entries, open=more):
                return DictValue(
                    {key: walk(item, (*path, _key("key", key))) for key, item in entries.items()}, more
                )
            case Instance(attributes=attributes) if is_tree(value):
                parts = {name: walk(item, (*path, _key("name", name))) for name, item in attributes.items()}
                return Instance(value.of, parts, value.open)
            case None:
                return None
        return call.interpreter.call(call.args[0], (path, value), {}, call.place)

    return walk(call.args[1], ())


def _key(name: str, value: Any) -> Value:
    return Instance(None, {name: value})


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
    found = getattr(expression, call.name.rpartition(".")[2])(text) is not None
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
