"""Elements of a value that is iterated over."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.layouts.layout import (
    Layout,
)
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    ClassValue,
    DictValue,
    Instance,
    ListValue,
    Unknown,
    Value,
    as_operand,
    join_values,
)
from shardlint.model.values import Place

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

MOST_ITEMS = 512
_MOST_ROWS = 64


def known_items(run: RunState, value: Value) -> list[Value] | None:
    """The items of something that is iterated over; None where they are not all known."""
    match value := as_operand(value):
        case tuple():
            return list(value)
        case str():
            return list(value)
        case ListValue(items=found, open=False):
            return list(found)
        case DictValue(entries=entries, open=False):
            return list(entries)
        case range() if len(value) <= MOST_ITEMS:
            return list(value)
        case Instance(of=ClassValue() as owner) if "typing.NamedTuple" in owner.library_classes():
            names = run.modules.field_names(owner)
            return [value.attributes[name] for name in names] if set(names) <= value.attributes.keys() else None
        case Layout(shape=(int() as size, *_)) if size <= _MOST_ROWS and not value.literal:
            return [join_items(run, value)] * size
    return None


def evaluate_iterable(run: RunState, node: ast.expr) -> Value:
    """Return the elements of an expression that is iterated over; of an object the result of its `__iter__`."""
    return iterate_value(run, run.evaluate_expression(node), Place(run.frame.file, node))


def iterate_value(run: RunState, value: Value, place: Place) -> Value:
    """The same of a value."""
    if isinstance(value, Instance) and value.of is not None:
        method = value.of.find_attribute("__iter__")
        found = run.call_value(method, (value,), {}, place) if method is not MISSING else value
        following = value.of.find_attribute("__next__") if found is value else MISSING
        if following is not MISSING:
            return ListValue([run.call_value(following, (value,), {}, place)], True)
        return found
    return value


def join_items(run: RunState, value: Value) -> Value:
    """Return the joined value of the items of a container of which not all items are known."""
    match value:
        case ListValue(items=found) if found:
            joined = found[0]
            for one in found[1:]:
                joined = join_values(joined, one)
            return joined
        case range():
            return Unknown("a count")
        case Layout(shape=None):
            return value.with_shape(None)
        case Layout(shape=(_, *rest)) if not value.literal:
            spec = value.spec[1:] if value.spec else None
            return value.with_shape(tuple(rest), spec)
        case DictValue(entries=entries) if entries and not value.open:
            return Unknown("a key")
        case AnyTree():
            return part_of_tree(value)
    return Unknown("an item of something that is not known")


def part_of_tree(tree: AnyTree) -> AnyTree:
    """An item of a tuple or list, or of an array, which has not the dimension of the whole any more."""
    return replace(tree, leaf=replace(tree.leaf, rows=None)) if isinstance(tree.leaf, Layout) else tree
