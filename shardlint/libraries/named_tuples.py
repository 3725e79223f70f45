"""Classes that a call makes: `collections.namedtuple`, and `typing.NamedTuple` as a function."""

from __future__ import annotations

import ast

from shardlint.layouts.values import Call, ClassValue, Library, Unknown, Value, known_items
from shardlint.libraries.registry import function


@function("collections.namedtuple", "typing.NamedTuple")
def named_tuple(call: Call) -> Value:
    """The class of tuples with names, as a class statement would make it."""
    name, given = call.get(0, "typename"), call.get(1, "field_names", call.get(1, "fields", ()))
    fields = given.replace(",", " ").split() if isinstance(given, str) else known_items(given)
    names: list[Value] = [one[0] if isinstance(one, tuple) and one else one for one in fields or ()]
    if not isinstance(name, str) or fields is None or not all(isinstance(one, str) for one in names):
        return Unknown("a class of tuples whose fields are not known")
    defaults = known_items(call.keywords.get("defaults", ())) or ()
    node = ast.parse(f"class {name}:\n" + "".join(f"    {one}: object\n" for one in names or ("...",))).body[0]
    assert isinstance(node, ast.ClassDef)
    ast.copy_location(node, call.place.node)
    values: dict[str, Value] = dict(zip(names[len(names) - len(defaults) :], defaults, strict=False))
    return ClassValue(node, values, [Library("typing.NamedTuple")], call.interpreter.frame)
