"""Shapes of meshes whose sizes make up another number of devices than is put into them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import settled_expression
from shardlint.facts.processes.count_scales import ALL, LISTS, PROCESS, Scale, count_scale
from shardlint.model.values import Api, CallResult, options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import names_in
from shardlint_rules.processes._count_conflicts import (
    CountConflict,
    counting_expression,
    enclosing_product,
    uses_of,
)
from shardlint_rules.processes.value_uses import reads_of_same_value

_MAKERS = ("jax.make_mesh", "jax.experimental.mesh_utils.create_device_mesh")
_SHAPES = ("mesh_shape", "axis_shapes", "shape", "newshape")
_ARRAYS = ("array", "asarray", "list", "sorted", "create_device_mesh")


def find_grid_conflicts(site: Site) -> Iterator[CountConflict]:
    """`jax.make_mesh((jax.local_device_count(),), ...)`, `np.array(jax.devices()).reshape(local_device_count(), 1)`."""
    counted = counting_expression(site)
    scale = count_scale(site.program, site.file, counted)
    if scale not in (ALL, PROCESS):
        return
    for use in uses_of(site, counted):
        top, sign = enclosing_product(site.file, use)
        shape = site.file.parent(top)
        if sign < 0 or not isinstance(shape, ast.Tuple | ast.List | ast.Call):
            continue
        sizes = shape.args if isinstance(shape, ast.Call) else shape.elts
        product = _scale_of_product(site, sizes, top, scale)
        if product not in (ALL, PROCESS):
            continue
        for call in _find_calls(site, shape):
            devices = _scale_of_devices(site, call)
            if devices is not None and devices != product:
                yield _make_conflict(use, product, scale)
                break


def _scale_of_product(site: Site, sizes: list[ast.expr], top: ast.expr, scale: Scale) -> Scale | None:
    """Of how many devices a shape is; None where a size is not known, which may be the number of processes."""
    product = scale
    for one in sizes:
        if one is top or isinstance(one, ast.Constant) or _is_other_size_divisor(site, one, top):
            continue
        counted = count_scale(site.program, site.file, one)
        if counted is None:
            return None
        product = (product[0] + counted[0], product[1] + counted[1])
    return product


def _make_conflict(use: ast.expr, product: Scale, scale: Scale) -> CountConflict:
    if product == PROCESS:
        return CountConflict(
            use,
            "With several processes this mesh raises or omits devices: its shape counts one process's devices.",
            "mesh",
            "the mesh gets the devices of all processes, and its shape counts those of one",
            "" if product != scale else "jax.device_count",
            help="compute the shape from `jax.device_count()`" if product != scale else "",
        )
    return CountConflict(
        use,
        "Building this mesh raises with several processes: its shape is for all devices, "
        "but it gets only the local devices.",
        "mesh",
        "the devices are jax.local_devices(), so building the mesh raises",
        "" if product != scale else "jax.local_device_count",
        help="compute the shape from `jax.local_device_count()`, or build the mesh from `jax.devices()`"
        if product != scale
        else "",
    )


def _is_other_size_divisor(site: Site, size: ast.expr, top: ast.expr) -> bool:
    """Return whether another size is the divisor of the count: `(count // model, model)`."""
    return (
        isinstance(size, ast.Name | ast.Attribute)
        and site.text(size) in site.text(top)
        and bool(names_in(size))
    )


def _find_calls(site: Site, shape: ast.Tuple | ast.List | ast.Call) -> Iterator[ast.Call]:
    """The calls that a shape is for."""
    if isinstance(shape, ast.Call):
        if last_name(shape.func) == "reshape":
            yield shape
        return
    for use in reads_of_same_value(site.file, shape):
        parent = site.file.parent(use)
        if isinstance(parent, ast.keyword) and parent.arg in _SHAPES:
            parent = site.file.parent(parent)
            if isinstance(parent, ast.Call):
                yield parent
        elif isinstance(parent, ast.Call) and use in parent.args[:2]:
            yield parent


def _scale_of_devices(site: Site, call: ast.Call) -> Scale | None:
    """Whose devices are put into a shape."""
    name = last_name(call.func)
    if name == "reshape" and isinstance(call.func, ast.Attribute):
        inside = settled_expression(site.file, call.func.value)
        return _scale_of_list(site, inside)
    found = options(site.value(call.func))
    if not found or not all(isinstance(one, Api) and one.name in _MAKERS for one in found):
        return None
    given = next((one.value for one in call.keywords if one.arg == "devices"), None)
    if given is None and name == "create_device_mesh" and len(call.args) > 1:
        given = call.args[1]
    if any(one.arg is None for one in call.keywords):
        return None
    return ALL if given is None else _scale_of_list(site, settled_expression(site.file, given))


def _scale_of_list(site: Site, node: ast.expr) -> Scale | None:
    while isinstance(node, ast.Call) and last_name(node.func) in _ARRAYS and node.args:
        node = settled_expression(site.file, node.args[0])
    found = {
        LISTS.get(one.api or "") if isinstance(one, CallResult) else None for one in options(site.value(node))
    }
    return found.pop() if len(found) == 1 else None
