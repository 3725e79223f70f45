"""SL308."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from shardlint.model.values import Api, Constant, Items, Place, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings

_MESH = "jax.sharding.Mesh"
_MAKE = "jax.make_mesh"
_GRID = "jax.experimental.mesh_utils.create_device_mesh"
_FLAG = "xla_force_host_platform_device_count"
_OPTION = "jax_num_cpu_devices"
_COUNTED = compile_lazily(rf"{_FLAG}[= ](\d+)")
_WHOLE = ("numpy.array", "numpy.asarray", "jax.numpy.array", "jax.numpy.asarray")

_KEYWORDS = ("axis_names", "axis_types", "axis_shapes", "axis_sizes", "mesh_shape", "devices")


class MeshSizeHardCoded(Rule):
    """The sizes of a mesh do not match the number of simulated devices that the same file sets.

    A mesh of more devices raises ValueError. So do `create_device_mesh` and a reshape of all devices for fewer. The
    file sets the number with `--xla_force_host_platform_device_count` or `jax_num_cpu_devices`.

    ## Reports
    - proven: a mesh with literal sizes whose product is larger than the number of simulated devices.
    - proven: `create_device_mesh`, or a reshape of all devices, with literal sizes whose product is smaller than that
      number.

    ## Limits
    Not reported: a mesh with an explicit device list, and computed sizes. Also not reported: a device count that the
    file sets by `setdefault`, inside a function, or twice. `jax.make_mesh` for fewer devices raises nothing: it takes
    the first ones.
    """

    code = "SL308"
    name = "mesh-size-hard-coded"
    harm = Harm.CRASH
    triggers = (Calls(_MESH, _MAKE, _GRID, file_says=(_FLAG, _OPTION)),)
    closed = ("positional",)

    @detector("call")
    def report_size(self, site: Site) -> Finding | None:
        """The size of a mesh that differs from the number of devices."""
        simulated = _simulated_device_count(site)
        if simulated is None:
            return None
        asked = self._hard_coded_size(site)
        if asked is None:
            return None
        node, wanted = asked
        count, line = simulated
        if wanted == count or (wanted < count and site.api == _MAKE):
            return None  # make_mesh takes the first devices
        return site.finding(
            node,
            f"`{site.short_name}` raises ValueError: its sizes are for {wanted} devices, and the program has {count}.",
            label=f"{wanted} devices",
            help="compute one axis size from `jax.device_count()`",
            why=f"line {line} sets {count} simulated devices; checked on {site.release('jax')}",
        )

    def _hard_coded_size(self, site: Site) -> tuple[ast.expr, int] | None:
        """The expression with the sizes, and how many devices they make."""
        if site.argument("devices") is not None and site.api != _MESH:
            return None
        if any(keyword.arg not in _KEYWORDS for keyword in site.call.keywords):
            return None
        if site.api == _MESH:
            devices = site.argument("devices")
            reshaped = _reshape_of_all(site, devices) if devices is not None else None
            if devices is None or reshaped is None:
                return None
            shape = site.shape_of(Place(site.file, reshaped))
            sizes = [one for one in shape or (None,) if one is not None]
            return (
                (devices, math.prod(sizes))
                if shape and len(sizes) == len(shape) and -1 not in sizes
                else None
            )
        node = site.argument("axis_shapes" if site.api == _MAKE else "mesh_shape")
        found = options(site.value(node)) if node is not None else ()
        if node is None or len(found) != 1 or not isinstance(found[0], Items) or found[0].open:
            return None
        sizes = [
            one.value for one in found[0].items if isinstance(one, Constant) and isinstance(one.value, int)
        ]
        known = len(sizes) == len(found[0].items) and all(size > 0 for size in sizes)
        return (node, math.prod(sizes)) if known else None


def _simulated_device_count(site: Site) -> tuple[int, int] | None:
    """How many devices the module asks for, once and for certain, and in which line."""
    file = site.file
    found: list[tuple[int, int]] = []
    for text in (_FLAG, _OPTION):
        found += _device_count_settings(site, file, text)
    mentioned = len(_COUNTED.findall(file.source.text)) + file.source.text.count(_OPTION)
    return found[0] if len(found) == 1 == mentioned else None


def _device_count_settings(site: Site, file: FileFacts, text: str) -> Iterator[tuple[int, int]]:
    """Statements of the module itself that set the number of devices."""
    if not file.contains_text(text):
        return
    for statement in file.walk_scope(file.module).body_statements:
        match statement:
            case (
                ast.Assign(targets=[ast.Subscript() as target], value=value)
                | ast.AugAssign(target=ast.Subscript() as target, value=value)
            ) if text == _FLAG and "environ" in file.source_text(target) and "XLA_FLAGS" in file.source_text(target):
                number = _COUNTED.search(file.source_text(value))
                if number is not None:
                    yield int(number[1]), statement.lineno
            case ast.Expr(
                value=ast.Call(args=[ast.Constant(value=option), ast.Constant(value=int() as count)])
            ):
                call = statement.value
                assert isinstance(call, ast.Call)
                callee = site.value(call.func)
                if (
                    option == text == _OPTION
                    and isinstance(callee, Api)
                    and callee.name == "jax.config.update"
                ):
                    yield count, statement.lineno


def _reshape_of_all(site: Site, node: ast.expr) -> ast.expr | None:
    """`np.array(jax.devices()).reshape(...)`, also through names: the call of reshape."""
    node = _definition_of_name(site, node)
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr != "reshape"
    ):
        return None
    return node if _is_all(site, _definition_of_name(site, node.func.value)) else None


def _is_all(site: Site, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    callee = site.value(node.func)
    if not isinstance(callee, Api):
        return False
    if callee.name == "jax.devices":
        return not node.args and not node.keywords
    return (
        callee.name in _WHOLE
        and len(node.args) == 1
        and _is_all(site, _definition_of_name(site, node.args[0]))
    )


def _definition_of_name(site: Site, node: ast.expr) -> ast.expr:
    """Return the definition of a name bound once by an assignment."""
    for _ in range(4):
        if not isinstance(node, ast.Name):
            break
        bindings, _ = lookup_bindings(site.file, node, node.id)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            break
        node = bindings[0].value
    return node
