"""The built-in functions of Python."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardlint.layouts.attributes import attribute_of_value
from shardlint.layouts.iteration import iterate_value, join_items, known_items
from shardlint.layouts.layout import (
    Layout,
    Symbol,
)
from shardlint.layouts.methods import enter_value
from shardlint.layouts.operators import apply_binary, call_library
from shardlint.layouts.pieces import local_size_with_axes
from shardlint.layouts.values import (
    AnyTree,
    Call,
    ClassValue,
    Devices,
    DictValue,
    Instance,
    Library,
    ListValue,
    Native,
    Plain,
    Unknown,
    Value,
    as_operand,
)
from shardlint.model.values import Place

if TYPE_CHECKING:
    pass

class _Static:
    """A static method."""

    def __init__(self, inner: Value) -> None:
        self.inner = self.function = inner


def _static_method(call: Call) -> Value:
    return _Static(call.argument_at(0, "function"))


def _class_method(call: Call) -> Value:
    function = call.argument_at(0, "function")
    return _Wrapping("classmethod", lambda again: function, function)


def _make_property(call: Call) -> Value:
    function = call.argument_at(0, "fget")
    return _Wrapping(
        "property", lambda again: again.interpreter.call_value(function, again.args, {}, again.place), function
    )


class _Wrapping(Native):
    """A native function around one of the project."""

    def __init__(self, name: str, run: Callable[[Call], Value], function: Value) -> None:
        super().__init__(name, run)
        object.__setattr__(self, "function", function)


def _len_of_value(call: Call) -> Value:
    value = as_operand(call.argument_at(0, "obj"))
    match value:
        case tuple() | str() | range():
            return len(value)
        case ListValue(items=found, open=False):
            return len(found)
        case ListValue(length=int() | Symbol() as length):
            return length
        case DictValue(entries=entries, open=False):
            return len(entries)
        case Layout(shape=sizes, pieces=(axes, *_)) | AnyTree(leaf=Layout(shape=sizes, pieces=(axes, *_))):
            return local_size_with_axes(sizes[0] if sizes else None, axes)
        case Layout(shape=(int() | Symbol() as size, *_)) | Devices(shape=(int() | Symbol() as size, *_)):
            return size
        case Devices(shape=(None, *_), order="all"):
            return Symbol("jax.device_count()")
    return Unknown("a length")


def _make_range(call: Call) -> Value:
    if call.args and all(isinstance(one, int) for one in call.args) and not call.open:
        try:
            return range(*call.args)
        except (TypeError, ValueError):
            pass
    return Unknown("a range")


def _make_sequence(call: Call) -> Value:
    given = iterate_value(call.interpreter, call.args[0], call.place) if call.args else ()
    found = known_items(call.interpreter, given)
    if found is None and isinstance(given, Devices):
        return given
    made = found if found is not None else [join_items(call.interpreter, given)]
    if call.name == "builtins.tuple":
        return tuple(made) if found is not None else Unknown("a tuple")
    return ListValue(made, found is None, region=call.interpreter.region)


def _reverse_list(value: Value) -> Value:
    return ListValue(value.items[::-1], value.open) if isinstance(value, ListValue) else value


def _dict_made(call: Call) -> Value:
    made = DictValue(dict(call.keywords), call.open, region=call.interpreter.region)
    first = call.args[0] if call.args else None
    if isinstance(first, DictValue):
        made.entries = {**first.entries, **made.entries}
        made.open = made.open or first.open
    elif first is not None:
        pairs = known_items(call.interpreter, first)
        if pairs is None:
            made.open = True
        for pair in pairs or ():
            if isinstance(pair, tuple) and len(pair) == 2:
                enter_value(made, *pair)
            else:
                made.open = True
    return made


def _zip_lists(call: Call) -> Value:
    columns = [known_items(call.interpreter, one) for one in call.args]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns) or not columns:
        each = tuple(join_items(call.interpreter, one) for one in call.args)
        return ListValue([each], True)
    return ListValue([tuple(row) for row in zip(*known, strict=False)])


def _enumerate_items(call: Call) -> Value:
    found = known_items(call.interpreter, call.argument_at(0, "iterable"))
    start = call.argument_at(1, "start", 0)
    if found is None:
        return ListValue(
            [(Unknown("a count"), join_items(call.interpreter, call.argument_at(0, "iterable")))], True
        )
    return ListValue(
        [
            (start + place if isinstance(start, int) else Unknown("a count"), one)
            for place, one in enumerate(found)
        ]
    )


def _map_function(call: Call) -> Value:
    function, *columns = call.args or (Unknown(),)
    rows = known_items(call.interpreter, _zip_lists(replace(call, args=tuple(columns))))
    known = rows is not None and not call.open
    if rows is None:
        rows = [tuple(join_items(call.interpreter, one) for one in columns)]
    return ListValue([call.interpreter.call_value(function, row, {}, call.place) for row in rows], not known)


def _plain_builtin(function: Callable[..., Any]) -> Callable[[Call], Value]:
    def call_builtin(call: Call) -> Value:
        if len(call.args) == 1 and not isinstance(call.args[0], str):
            args: Any = known_items(call.interpreter, call.args[0])
            args = call.args if args is None else [args]
        else:
            args = call.args
        flat = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        if not all(isinstance(one, int | float | str) for one in flat) or call.keywords or call.open:
            return Unknown("a number")
        try:
            return function(*args)
        except (TypeError, ValueError, ArithmeticError):
            return Unknown("a number")

    return call_builtin


def _make_conversion(function: Callable[..., Any]) -> Callable[[Call], Value]:
    """A function that makes a number of Python, also of an array."""
    plain = _plain_builtin(function)

    def convert_argument(call: Call) -> Value:
        if len(call.args) == 1 and isinstance(call.args[0], Layout | AnyTree):
            where = Place(call.place.file, next(iter(call.argument_nodes), call.place.node))
            return call_library(call.interpreter, "shardlint.scalar", call.args, where)
        return plain(call)

    return convert_argument


def _add_values(call: Call) -> Value:
    """The sum of numbers, or of arrays one after the other."""
    if len(call.args) == 1 and isinstance(call.args[0], Layout) and call.args[0].has_rows:
        return call_library(call.interpreter, "jax.numpy.sum", (call.args[0], 0), call.place)
    found = known_items(call.interpreter, call.args[0]) if len(call.args) == 1 else None
    if found is None or not any(isinstance(one, Layout) for one in found):
        return _plain_builtin(sum)(call)
    total: Value = 0
    for one in found:
        total = apply_binary(call.interpreter, ast.Add(), total, one, call.place)
    return total


def _next_element(call: Call) -> Value:
    return join_items(
        call.interpreter, iterate_value(call.interpreter, call.argument_at(0, "iterator"), call.place)
    )


def _attribute_by_name(call: Call) -> Value:
    name = call.argument_at(1, "name")
    return (
        attribute_of_value(call.interpreter, call.args[0], name, call.place)
        if isinstance(name, str) and call.args
        else Unknown("getattr")
    )


def _is_instance(call: Call) -> Value:
    value, kind = call.argument_at(0, "obj"), call.argument_at(1, "cls")
    plain = {
        "builtins.int": int,
        "builtins.str": str,
        "builtins.float": float,
        "builtins.tuple": tuple,
        "builtins.dict": DictValue,
        "builtins.list": ListValue,
    }
    if isinstance(kind, Library) and kind.name in plain and not isinstance(value, Unknown | Symbol | AnyTree):
        return isinstance(value, plain[kind.name])
    if isinstance(kind, Library) and isinstance(value, Instance | Plain) and kind.name in value.library_classes():
        return True
    if isinstance(kind, Library) and isinstance(value, Layout | str) and kind.name.startswith(("flax.", "haliax.")):
        return False
    if isinstance(kind, ClassValue) and isinstance(value, Instance) and value.of is not None:
        return any(one is kind for one in value.of.ancestor_classes) or Unknown("isinstance")
    return Unknown("isinstance")


def field_default(call: Call) -> Value:
    """The default of a field of a dataclass."""
    made_by = call.keywords.get("default_factory")
    if made_by is not None:
        return call.interpreter.call_value(made_by, (), {}, call.place)
    return call.keywords.get("default", Unknown("a field without a default"))


def _call_super(call: Call) -> Value:
    return Unknown("super()")


BUILTINS: dict[str, Callable[[Call], Value]] = {
    "builtins.len": _len_of_value,
    "builtins.range": _make_range,
    **dict.fromkeys(
        ("builtins.list", "builtins.tuple", "builtins.set", "builtins.iter", "builtins.frozenset"),
        _make_sequence,
    ),
    "builtins.reversed": lambda call: _reverse_list(_make_sequence(call)),
    "builtins.dict": _dict_made,
    "builtins.zip": _zip_lists,
    "builtins.enumerate": _enumerate_items,
    "builtins.map": _map_function,
    "builtins.next": _next_element,
    "builtins.getattr": _attribute_by_name,
    "builtins.isinstance": _is_instance,
    "builtins.staticmethod": _static_method,
    "builtins.classmethod": _class_method,
    "builtins.property": _make_property,
    "functools.cached_property": _make_property,
    "builtins.super": _call_super,
    **dict.fromkeys(("dataclasses.field", "equinox.field", "flax.struct.field"), field_default),
    **{f"builtins.{one.__name__}": _plain_builtin(one) for one in (str, abs, min, max, round)},
    **{f"builtins.{one.__name__}": _make_conversion(one) for one in (int, float, bool)},
    "builtins.sum": _add_values,
    **{
        f"math.{name}": _plain_builtin(getattr(__import__("math"), name))
        for name in ("prod", "sqrt", "ceil", "floor", "gcd", "log2")
    },
    "builtins.print": lambda call: None,
}


_BUILTIN_NAMES = frozenset(dir(builtins))


def builtin_value(name: str) -> Value:
    """Return the builtin of a name that nothing binds."""
    if name in _BUILTIN_NAMES:
        return Library(f"builtins.{name}")
    return Unknown(f"`{name}` is not bound here")
