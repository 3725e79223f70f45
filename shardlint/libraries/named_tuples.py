"""Classes that a call makes: `collections.namedtuple`, and `typing.NamedTuple` as a function."""

from __future__ import annotations

import ast
from keyword import iskeyword

from shardlint.layouts.values import Call, ClassValue, Library, Unknown, Value, known_items
from shardlint.libraries.registry import register_function


@register_function("collections.namedtuple", "typing.NamedTuple")
def named_tuple(call: Call) -> Value:
    """The class of tuples with names, as a class statement would make it."""
    name, given = call.argument_at(0, "typename"), call.argument_at(1, "field_names", call.argument_at(1, "fields", ()))
    fields = given.replace(",", " ").split() if isinstance(given, str) else known_items(given)
    names = [str(one[0] if isinstance(one, tuple) and one else one) for one in fields or ()]
    if fields is None or not all(one.isidentifier() and not iskeyword(one) for one in (str(name), *names)):
        return Unknown("a class of tuples whose fields are not known")
    defaults = known_items(call.keywords.get("defaults", ())) or ()
    node = ast.parse(f"class {name}:\n" + "".join(f"    {one}: object\n" for one in names or ("...",))).body[0]
    assert isinstance(node, ast.ClassDef)
    ast.copy_location(node, call.place.node)
    values: dict[str, Value] = dict(zip(names[len(names) - len(defaults) :], defaults, strict=False))
    return ClassValue(node, values, [Library("typing.NamedTuple")], call.interpreter.frame)
