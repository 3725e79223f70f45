"""Values with an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint.layouts.attributes import Updates, find_hook
from shardlint.layouts.device_arrays import is_plain_slice, select_devices
from shardlint.layouts.iteration import join_items, known_items, part_of_tree
from shardlint.layouts.layout import (
    Layout,
)
from shardlint.layouts.operators import call_library
from shardlint.layouts.pieces import UnknownShape
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    ClassValue,
    Devices,
    DictValue,
    FunctionValue,
    Instance,
    Library,
    ListValue,
    PartitionSpec,
    Plain,
    Unknown,
    Value,
    as_operand,
)
from shardlint.model.values import Place

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

def subscript_value(run: RunState, value: Value, index: Value, place: Place) -> Value:
    """`value[index]`."""
    if index is ... and as_operand(value) is not value:
        return as_operand(value)  # of a Variable, its array
    match value := as_operand(value):
        case tuple() | str() if isinstance(index, int):
            return value[index] if -len(value) <= index < len(value) else Unknown("an index out of range")
        case tuple() | str() if isinstance(index, slice) and is_plain_slice(index):
            return value[index]
        case ListValue(items=found, open=False) if isinstance(index, int):
            return found[index] if -len(found) <= index < len(found) else Unknown("an index out of range")
        case ListValue(items=found, open=False) if isinstance(index, slice) and is_plain_slice(index):
            return ListValue(found[index], region=run.region)
        case DictValue(entries=entries, open=more):
            if isinstance(index, str | int | float | bool | tuple | Plain | None):
                try:
                    if index in entries:
                        return entries[index]
                except TypeError:
                    pass
            if value.declared is not None and not more and isinstance(index, str):
                said = {"key": repr(index), "where": f"{place.file.path.name}:{place.line}"}
                run.record_violation("specs.key", value.declared, read=place.source_text(), **said)
            return Unknown("a key") if more or isinstance(index, Unknown) else Unknown("no such key")
        case ListValue() | tuple():
            return join_items(run, value if isinstance(value, ListValue) else ListValue(list(value)))
        case Layout():
            return call_library(run, "shardlint.index", (value, index), place)
        case Devices():
            return select_devices(value, index)
        case AnyTree(leaf=Layout() as leaf) if run.axes and _is_array_index(index):
            return call_library(run, "shardlint.index", (leaf, index), place)
        case AnyTree():
            return value if isinstance(index, str) else part_of_tree(value)
        case UnknownShape() if isinstance(index, int):
            return value.size_at(index)
        case Updates():
            return Updates(value.array, index)
        case Instance(of=ClassValue() as owner):
            method = owner.find_attribute("__getitem__")
            if method is not MISSING:
                return run.call_value(method, (value, index), {}, place)
            fields = known_items(run, value)
            return (
                Unknown("an item of an object")
                if fields is None
                else subscript_value(run, tuple(fields), index, place)
            )
        case Instance(of=None) if (hook := find_hook(run, value, "__getitem__")) is not None:
            return run.call_value(hook, (value, index), {}, place)
        case PartitionSpec(entries=found, open=False) if isinstance(index, int) and -len(
            found
        ) <= index < len(found):
            return found[index]
        case FunctionValue() | ClassValue() | Library():
            return value  # a type with its arguments
    return Unknown("an item of something that is not known")


def _is_array_index(index: Value) -> bool:
    """Return whether only an array takes an index: one with slices, new dimensions or numbers of several dimensions."""
    if isinstance(index, tuple):
        return all(isinstance(one, slice | int | Layout | None) or one is ... for one in index) and index != ()
    return isinstance(index, slice | Layout)
