"""Arrays that surely lie over devices: placed by a NamedSharding, made by jit with out_shardings or by shard_map."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.processes.all_devices import mesh_of_all
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.values import CallArguments, CallResult, Parameter, Place, Transformed, Value, options
from shardlint.rules_api.site import Site

_TARGET = {
    "jax.device_put": ("device", 1),
    "jax.lax.with_sharding_constraint": ("shardings", 1),
    "jax.make_array_from_process_local_data": ("sharding", 0),
    "jax.make_array_from_callback": ("sharding", 1),
    "jax.make_array_from_single_device_arrays": ("sharding", 1),
}
_MAP = "jax.shard_map"
_NAMED = "jax.sharding.NamedSharding"


def is_surely_sharded_array(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is surely an array with a NamedSharding, of whatever spec."""
    found = options(site.value(node))
    return bool(found) and all(list(_possible_mesh_and_spec(site, one)) for one in found)


def is_made_of_sharded_array(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is surely the result of a jitted function for such an array, which is on the same
    devices.
    """
    found = options(site.value(node))
    return bool(found) and all(_is_computed_from_sharded(site, one) for one in found)


def _is_computed_from_sharded(site: Site, value: Value) -> bool:
    if not isinstance(value, CallResult) or value.call is None or not isinstance(value.by, Transformed):
        return False
    if value.by.api.name not in JIT_WRAPPERS:
        return False
    call = value.call
    given = [
        options(site.program.evaluator.value(place, call.environment))
        for place in (*call.positional, *call.keywords.values())
    ]
    return any(bool(each) and all(list(_possible_mesh_and_spec(site, one)) for one in each) for each in given)


def is_split_over_processes(site: Site, node: ast.expr) -> bool:
    """Return whether the array is surely sharded over the devices of all processes: by an axis of a mesh of all of
    them.
    """
    found = options(site.value(node))
    return bool(found) and all(_is_splitting_over_processes(site, one) for one in found)


def is_split_over_parameter_mesh(site: Site, node: ast.expr) -> bool:
    """Return whether the array is surely sharded by an axis of a mesh that is a parameter, such as the mesh of a whole
    program.
    """
    if any(isinstance(one, Parameter) for one in options(site.value(node))):
        return False  # that is asked of the calls
    found = shardings_of(site, node)
    return bool(found) and all(_is_given(site, mesh) and _names_axis(site, spec) for mesh, spec in found)


def _is_given(site: Site, mesh: Value) -> bool:
    given = options(site.program.followed(mesh))
    return all(isinstance(one, Parameter) or mesh_of_all(site.program, one) for one in given)


def shardings_of(site: Site, node: ast.expr) -> list[tuple[Value, Value]]:
    """The mesh and the spec of an array, of each sharding that it may have, also by the calls in sight that give it.

    None at all where one is not known.
    """
    found: list[tuple[Value, Value]] = []
    for one in options(site.value(node)):
        for given in options(site.program.followed(one)) if isinstance(one, Parameter) else (one,):
            parts = list(_possible_mesh_and_spec(site, given))
            if not parts:
                return []
            found += parts
    return found


def _is_splitting_over_processes(site: Site, value: Value) -> bool:
    parts = list(_possible_mesh_and_spec(site, value))
    return bool(parts) and all(mesh_of_all(site.program, mesh) and _names_axis(site, spec) for mesh, spec in parts)


def _names_axis(site: Site, value: Value) -> bool:
    spec = site.spec_of(value)
    return spec is not None and any(entry.axes for entry in spec.entries)


def _possible_mesh_and_spec(site: Site, value: Value) -> Iterator[tuple[Value, Value]]:
    """The mesh and the spec of an array, for each sharding that it may have; none where one is not known."""
    if not isinstance(value, CallResult) or value.call is None:
        return
    made = value.by.call if isinstance(value.by, Transformed) else None
    if made is not None and isinstance(value.by, Transformed) and value.by.api.name == _MAP:
        found = {name: made.keywords.get(name) for name in ("mesh", "out_specs")}
        mesh, spec = (site.program.evaluator.value(one) if one is not None else None for one in found.values())
        if mesh is not None and spec is not None:
            yield mesh, spec
        return
    given = _sharding_expression(value, made)
    kinds = options(site.program.evaluator.value(given)) if given is not None else ()
    if all(isinstance(one, CallResult) and one.api == _NAMED for one in kinds):
        parts = [site.sharding_parts(one) for one in kinds]
        yield from (one for one in parts if one is not None and None not in parts)


def _sharding_expression(value: CallResult, call_arguments: CallArguments | None) -> Place | None:
    """The expression of the sharding of an array."""
    if call_arguments is not None:
        is_jit = isinstance(value.by, Transformed) and value.by.api.name in JIT_WRAPPERS
        return call_arguments.keywords.get("out_shardings") if is_jit else None
    if value.api not in _TARGET or value.call is None:
        return None
    name, at = _TARGET[value.api]
    positional = value.call.positional
    return value.call.keywords.get(name) or (positional[at] if at < len(positional) else None)
