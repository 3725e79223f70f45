"""Expressions that are one device: `jax.devices()[0]`, names bound to it, parameters annotated as one."""

from __future__ import annotations

import ast

from shardlint.facts.location import Location
from shardlint.model.api import DEVICE_LISTS
from shardlint.model.signatures import parameters_of_definition
from shardlint.model.values import Api, CallResult, Constant, Place, options
from shardlint.syntax import Binding
from shardlint.syntax.bindings import lookup_bindings

_TYPES = ("jax.Device", "jaxlib.xla_extension.Device", "jaxlib.xla_client.Device")
_SINGLE = "jax.sharding.SingleDeviceSharding"
_BACKEND = {"jax.devices": ("backend",), "jax.local_devices": ("process_index", "backend")}
_DEPTH = 8
Lists = frozenset[Place]
"""The calls of `jax.devices` and its like that a device is taken from."""
_NONE: Lists = frozenset()


def is_device(location: Location, node: ast.AST) -> bool:
    """Return whether an expression is surely a device."""
    return _device_lists(location, Place(location.file, node)) is not None


def is_of_named_platform(location: Location, node: ast.AST) -> bool:
    """Return whether a device, or the sharding of one, comes from `jax.devices("cpu")` or its like on some path.

    Its platform is asked for by name, so it is not meant to be one of the devices the program runs on.
    """
    places = [Place(location.file, node)]
    for option in options(location.value(node)):
        if isinstance(option, CallResult) and option.api == _SINGLE and option.call is not None:
            device = option.call.argument_for("device", ("device", "memory_kind"))
            places += [device] if device is not None else []
    return any(_names_a_platform(location, call) for place in places for call in _device_lists(location, place) or ())


def is_single_device(location: Location, node: ast.AST) -> bool:
    """Return whether an expression is surely a SingleDeviceSharding in the device's default memory."""
    return all(
        isinstance(option, CallResult)
        and option.api == _SINGLE
        and option.call is not None
        and not option.call.may_have_argument("memory_kind", ("device", "memory_kind"))
        for option in options(location.value(node))
    )


def _device_lists(location: Location, place: Place, depth: int = 0) -> Lists | None:
    """Where a device comes from; None where an expression is not surely one."""
    if depth > _DEPTH:
        return None
    file = place.file
    match place.node:
        case ast.Subscript(slice=ast.Slice() | ast.Tuple()):
            return None
        case ast.Subscript(value=devices):
            return _device_listings(location, Place(file, devices))
        case ast.IfExp(body=body, orelse=orelse):
            return _union_if_all_known(
                [_device_lists(location, Place(file, part), depth + 1) for part in (body, orelse)]
            )
        case ast.Name(id=name) as node:
            bindings, scope = lookup_bindings(file, node, name)
            if scope is None or not bindings or name in file.rebound_globals:
                return None
            return _union_if_all_known(
                [_lists_of_binding(location, place, binding, depth) for binding in bindings]
            )
    return None


def _union_if_all_known(listses: list[Lists | None]) -> Lists | None:
    known = [one for one in listses if one is not None]
    return _NONE.union(*known) if len(known) == len(listses) else None


def _device_listings(location: Location, place: Place) -> Lists | None:
    """The calls that a list of devices may come from; None where it is not surely one."""
    calls = []
    for value in options(location.program.evaluator.value(place)):
        if not isinstance(value, CallResult) or value.api not in DEVICE_LISTS or value.call is None:
            return None
        calls.append(value.call.place)
    return frozenset(calls)


def _lists_of_binding(location: Location, place: Place, binding: Binding, depth: int) -> Lists | None:
    file = place.file
    match binding.kind:
        case "assign" | "walrus" if binding.value is not None:
            return _device_lists(location, Place(file, binding.value), depth + 1)
        case "for" | "comprehension" if binding.value is not None and binding.index is None:
            return _device_listings(location, Place(file, binding.value))
        case "unpack" if binding.value is not None:  # `first, *others = jax.devices()`: others has no value
            target = file.parent(binding.node)
            at_top = target is not None and isinstance(file.parent(target), ast.Assign)
            return _device_listings(location, Place(file, binding.value)) if at_top else None
        case "param" if binding.annotation is not None and binding.value is None:
            if _is_type(location, Place(file, binding.annotation)):
                return _lists_from_callers(location, place, binding, depth)
    return None


def _is_type(location: Location, annotation: Place) -> bool:
    value = location.program.evaluator.value(annotation)
    return isinstance(value, Api) and (value.name in _TYPES or value.written in _TYPES)


def _lists_from_callers(location: Location, place: Place, binding: Binding, depth: int) -> Lists:
    """Where those devices come from that calls of the function are seen to give for a parameter."""
    node = binding.scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return _NONE
    found = _NONE
    for called in location.program.flow.ends(place.file, node).direct_calls():
        given = parameters_of_definition(node).bind_arguments(location.program.evaluator.read_arguments(called)) or {}
        if binding.name in given:
            found |= _device_lists(location, given[binding.name], depth + 1) or _NONE
    return found


def _names_a_platform(location: Location, place: Place) -> bool:
    api = location.program.evaluator.value(place)
    if not isinstance(api, CallResult) or api.call is None:
        return False
    backend = api.call.argument_for("backend", _BACKEND[api.api])
    return backend is not None and location.program.evaluator.value(backend) != Constant(None)
