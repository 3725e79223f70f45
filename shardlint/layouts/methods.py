"""Methods of lists, dicts, tuples and text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardlint.layouts.iteration import join_items, known_items
from shardlint.layouts.values import (
    Call,
    DictValue,
    ListValue,
    Plain,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    pass

def enter_value(table: DictValue, key: Value, value: Value) -> None:
    """Enter a value in a table; a key that is not known opens it."""
    if isinstance(key, str | int | float | bool | tuple | Plain | None):
        try:
            table.entries[key] = value
            return
        except TypeError:
            pass
    table.open = True


def _append_to_list(value: ListValue, call: Call) -> Value:
    value = call.interpreter.changeable_copy(value)
    value.length = None
    if call.args:
        value.items.append(call.args[0])
        value.open = value.open or call.interpreter.region is not value.region
    return None


def _extend_list(value: ListValue, call: Call) -> Value:
    value = call.interpreter.changeable_copy(value)
    value.length = None
    more = known_items(call.interpreter, call.argument_at(0, "iterable"))
    value.items += more or []
    value.open = value.open or more is None or call.interpreter.region is not value.region
    return None


def _remove_from_list(value: ListValue, call: Call) -> Value:
    value = call.interpreter.changeable_copy(value)
    value.open, value.length = True, None
    return join_items(call.interpreter, value)


def _dict_items(value: DictValue, call: Call) -> Value:
    return ListValue([(key, one) for key, one in value.entries.items()], value.open)


def _get_from_dict(value: DictValue, call: Call) -> Value:
    key, default = call.argument_at(0, "key"), call.argument_at(1, "default", None)
    if isinstance(key, str | int | bool | None) and key in value.entries:
        return value.entries[key]
    return Unknown("a key") if value.open or not isinstance(key, str | int) else default


def _update_dict(value: DictValue, call: Call) -> Value:
    value = call.interpreter.changeable_copy(value)
    other = call.argument_at(0, "other", DictValue())
    certain = call.interpreter.region is value.region
    if isinstance(other, DictValue) and certain:
        value.entries.update(other.entries)
        value.entries.update(call.keywords)
        value.open = value.open or other.open
    else:
        value.open = True
        value.entries.clear()
    return None


def _pop_from_dict(value: DictValue, call: Call) -> Value:
    value = call.interpreter.changeable_copy(value)
    found = _get_from_dict(value, call)
    key = call.argument_at(0, "key")
    if call.interpreter.region is value.region and isinstance(key, str | int):
        value.entries.pop(key, None)
    else:
        value.open = True
    return found


def _set_default(value: DictValue, call: Call) -> Value:
    value = call.interpreter.changeable_copy(value)
    key = call.argument_at(0, "key")
    if isinstance(key, str | int) and not value.open:
        return value.entries.setdefault(key, call.argument_at(1, "default", None))
    return Unknown("a key")


METHODS: dict[tuple[type, str], Callable[[Any, Call], Value]] = {
    (ListValue, "append"): _append_to_list,
    (ListValue, "add"): _append_to_list,
    (ListValue, "extend"): _extend_list,
    (ListValue, "copy"): lambda value, call: ListValue(
        list(value.items), value.open, region=call.interpreter.region
    ),
    **{
        (ListValue, name): _remove_from_list
        for name in ("pop", "insert", "remove", "clear", "sort", "reverse", "discard")
    },
    (DictValue, "items"): _dict_items,
    (DictValue, "keys"): lambda value, call: ListValue(list(value.entries), value.open),
    (DictValue, "values"): lambda value, call: ListValue(list(value.entries.values()), value.open),
    (DictValue, "get"): _get_from_dict,
    (DictValue, "update"): _update_dict,
    (DictValue, "pop"): _pop_from_dict,
    (DictValue, "setdefault"): _set_default,
    (DictValue, "copy"): lambda value, call: DictValue(
        dict(value.entries), value.open, region=call.interpreter.region
    ),
    (tuple, "index"): lambda value, call: (
        value.index(call.args[0]) if call.args and call.args[0] in value else Unknown("an index")
    ),
}


_TEXT = frozenset(
    "split join startswith endswith replace strip lower upper lstrip rstrip rsplit removeprefix removesuffix".split()
)


def call_text_method(value: str, name: str, call: Call) -> Value:
    """Return the result of a string method."""
    args = [tuple(one.items) if isinstance(one, ListValue) and not one.open else one for one in call.args]
    plain = all(
        isinstance(one, str | int | None)
        or (isinstance(one, tuple) and all(isinstance(each, str) for each in one))
        for one in args
    )
    if name not in _TEXT or not plain or call.open or call.keywords:
        return Unknown("text")
    try:
        found = getattr(value, name)(*args)
    except (TypeError, ValueError):
        return Unknown("text")
    return ListValue(list(found)) if isinstance(found, list) else found
