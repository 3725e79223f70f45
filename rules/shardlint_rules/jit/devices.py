"""Expressions that are one device: `jax.devices()[0]`, names bound to it, parameters annotated as one."""

from __future__ import annotations

import ast

from shardlint.facts import Binding, FileFacts
from shardlint.program.api import DEVICE_LISTS
from shardlint.program.reach import lookup
from shardlint.program.values import Api, Made, Place, options
from shardlint.site import Site

_TYPES = ("jax.Device", "jaxlib.xla_extension.Device", "jaxlib.xla_client.Device")
_SINGLE = "jax.sharding.SingleDeviceSharding"


def is_device(site: Site, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression is surely a device."""
    if depth > 8:
        return False
    match node:
        case ast.Subscript(slice=ast.Slice() | ast.Tuple()):
            return False
        case ast.Subscript(value=devices):
            return _is_list(site, devices)
        case ast.IfExp(body=body, orelse=orelse):
            return is_device(site, body, depth + 1) and is_device(site, orelse, depth + 1)
        case ast.Name(id=name):
            bindings, scope = lookup(site.file, node, name)
            if scope is None or not bindings or name in site.file.rebound_globals:
                return False
            return all(_binds_device(site, binding, depth) for binding in bindings)
    return False


def single_device(site: Site, node: ast.AST) -> bool:
    """Whether an expression is surely a SingleDeviceSharding in the device's default memory."""
    return all(
        isinstance(option, Made)
        and option.api == _SINGLE
        and option.call is not None
        and not option.call.may_have("memory_kind", ("device", "memory_kind"))
        for option in options(site.value(node))
    )


def _is_list(site: Site, node: ast.AST) -> bool:
    return all(isinstance(value, Made) and value.api in DEVICE_LISTS for value in options(site.value(node)))


def _binds_device(site: Site, binding: Binding, depth: int) -> bool:
    match binding.kind:
        case "assign" | "walrus" if binding.value is not None:
            return is_device(site, binding.value, depth + 1)
        case "for" | "comprehension" if binding.value is not None and binding.index is None:
            return _is_list(site, binding.value)
        case "unpack" if binding.value is not None:  # `first, *others = jax.devices()`: others has no value
            target = site.file.parent(binding.node)
            at_top = target is not None and isinstance(site.file.parent(target), ast.Assign)
            return at_top and _is_list(site, binding.value)
        case "param" if binding.annotation is not None and binding.value is None:
            return _is_type(site, site.file, binding.annotation)
    return False


def _is_type(site: Site, file: FileFacts, annotation: ast.expr) -> bool:
    value = site.program.evaluator.value(Place(file, annotation))
    return isinstance(value, Api) and (value.name in _TYPES or value.written in _TYPES)
