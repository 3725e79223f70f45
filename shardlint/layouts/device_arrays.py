"""Arrays of devices: their attributes, their order when they are reshaped, and parts of them."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from shardlint.layouts.layout import (
    Shape,
    Symbol,
    count_entries,
    divide_size,
)
from shardlint.layouts.values import (
    Call,
    Device,
    Devices,
    ListValue,
    Native,
    Unknown,
    Value,
    known_items,
)

if TYPE_CHECKING:
    pass

def attribute_of_devices(value: Devices, shape: Shape, name: str) -> Value:
    """An attribute or method of an array of devices."""
    match name:
        case "shape":
            return tuple(Unknown("a size") if one is None else one for one in shape)
        case "size":
            total = count_entries(shape)
            return Unknown("a size") if total is None else total
        case "reshape":
            return Native(name, lambda call: _devices_reshaped(value, call))
        case "flatten" | "ravel" | "tolist":
            return Native(name, lambda call: Devices((count_entries(shape),), value.order))
        case "T":
            return _devices_transposed(value, ())
        case "transpose":
            return Native(name, lambda call: _devices_transposed(value, call.args))
    return Unknown("an attribute of devices")


def _devices_reshaped(value: Devices, call: Call) -> Value:
    sizes = call.args[0] if len(call.args) == 1 and isinstance(call.args[0], tuple) else call.args
    if isinstance(call.args[0] if call.args else None, ListValue):
        sizes = tuple(call.args[0].items)
    if call.open or not sizes:
        return Unknown("devices in a shape that is not known")
    shape = tuple(
        one if isinstance(one, Symbol) or (isinstance(one, int) and one > 0) else None for one in sizes
    )
    total, rest = count_entries(value.shape), count_entries(tuple(one for one in shape if one is not None))
    if shape.count(None) == 1 and -1 in sizes:
        shape = tuple(divide_size(total, rest) if one is None else one for one in shape)
    return Devices(shape, value.order)


def select_devices(value: Devices, index: Value) -> Value:
    """One device of a list, or some of them; of an array of more dimensions they are not followed."""
    known = _order_of(value)
    match index:
        case int() if len(value.shape) == 1:
            if known is not None:
                return (
                    Device(f"device {known[index]}") if -len(known) <= index < len(known) else Unknown("none")
                )
            return Device(f"device {index}") if value.order == "all" and index >= 0 else Unknown("a device")
        case slice() if len(value.shape) == 1 and is_plain_slice(index):
            if known is not None:
                return Devices((len(known[index]),), known[index])
            first, last = index.start or 0, index.stop
            if value.order == "all" and isinstance(last, int) and 0 <= first < last:
                chosen = tuple(range(last)[first : last : index.step or 1])
                return Devices((len(chosen),), chosen)
        case tuple() | ListValue() if len(value.shape) == 1:
            numbers = known_items(index) or ()
            if known is not None and all(isinstance(one, int) and 0 <= one < len(known) for one in numbers):
                numbers = tuple(known[one] for one in numbers)
            elif value.order != "all" or not all(isinstance(one, int) and one >= 0 for one in numbers):
                return Unknown("some devices")
            return Devices((len(numbers),), numbers) if numbers else Unknown("some devices")
    return Unknown("some devices")


def _order_of(value: Devices) -> tuple[int, ...] | None:
    """The devices by their numbers; None where it is not known how many there are."""
    count = count_entries(value.shape)
    if value.order == "all" and isinstance(count, int):
        return tuple(range(count))
    return value.order if isinstance(value.order, tuple) else None


def _devices_transposed(value: Devices, args: tuple[Value, ...]) -> Value:
    """The devices in the order of a transposed array. `args` are those of `transpose`."""
    sizes, order = value.shape, _order_of(value)
    given = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    axes = given or tuple(reversed(range(len(sizes))))
    if sorted(one for one in axes if isinstance(one, int)) != list(range(len(sizes))):
        return Unknown("transposed devices")
    shape = tuple(sizes[one] for one in axes)
    if order is None or not all(isinstance(one, int) for one in sizes):
        return Devices(shape, value.order if axes == tuple(range(len(sizes))) else None)
    steps = [prod(one for one in sizes[place + 1 :] if isinstance(one, int)) for place in axes]
    ranges = [range(one) for one in shape if isinstance(one, int)]
    found = tuple(
        order[sum(step * at for step, at in zip(steps, where, strict=True))] for where in product(*ranges)
    )
    return Devices(shape, value.order if found == order else found)


def is_plain_slice(index: slice) -> bool:
    """Return whether the bounds of a slice are all known."""
    return all(
        part is None or (isinstance(part, int) and not isinstance(part, bool))
        for part in (index.start, index.stop, index.step)
    )
