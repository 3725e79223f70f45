"""SL218."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.single_devices import is_device
from shardlint.model import api
from shardlint.model.signatures import JITS, SHARDING_SETTINGS
from shardlint.model.values import Constant, Function, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site

_CONSTRAINT = "jax.lax.with_sharding_constraint"
_GIVEN = {
    _CONSTRAINT: ("shardings",),
    **dict.fromkeys(JITS, SHARDING_SETTINGS),
    "jax.ShapeDtypeStruct": ("sharding",),
    "jax.make_array_from_callback": ("sharding",),
}


# The parameters that take a sharding, a mesh or a device, and never a function.
_TAKING = {
    **_GIVEN,
    "jax.device_put": ("device",),
    "jax.sharding.NamedSharding": ("mesh", "spec"),
    "jax.set_mesh": ("mesh",),
}


class DeviceAsSharding(Rule):
    """A device, a string or an uncalled function is passed as a sharding.

    Only `device_put` and `eqx.filter_shard` take a device. Other functions raise TypeError, and `ShapeDtypeStruct`
    raises ValueError. `jax.jit` raises when it wraps the function, and a constraint when it is traced. No function
    takes a string or an uncalled function: all raise.

    ## Reports
    - proven: a `Device` as the sharding of `with_sharding_constraint`, a jit, a ShapeDtypeStruct or
      `make_array_from_callback`.
    - proven: a project function that is passed but not called: `device_put(x, batch_sharding)` in place of
      `batch_sharding()`. It is passed to `device_put`, `NamedSharding`, `set_mesh` or a function that the first bullet
      names.
    - proven: a string as the device of `device_put`: `device_put(x, "cpu")`.

    ## Write instead
    - For a device write `SingleDeviceSharding(device)`, or call `jax.device_put(x, device)` outside of jit.
    - For a function call it: `batch_sharding()`.
    - For a string write `jax.local_devices(backend="cpu")[0]`.

    ## Fix
    Wraps the device in `SingleDeviceSharding`. Safe, because the original call raises. A constraint in traced code gets
    no fix: the fix would move the whole compiled program to one device.
    """

    code = "SL218"
    name = "device-as-sharding"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (
        Calls(_CONSTRAINT),
        Calls(*JITS, file_says=SHARDING_SETTINGS),
        Calls("jax.ShapeDtypeStruct", file_says=("sharding",)),
        Calls("jax.make_array_from_callback"),
        Calls("jax.device_put", "jax.sharding.NamedSharding", "jax.set_mesh"),
    )
    fixes = "safe"

    @detector("call", "partial")
    def find_leaves(self, site: Site) -> Iterator[Finding]:
        """Each device, function or string that stands for a sharding."""
        for name in _TAKING[site.api]:
            place = site.arguments.argument_for(name, api.SIGNATURES.get(site.api, ()))
            if place is None or place.file is not site.file:
                continue
            for node in _list_leaves(place.node):
                if site.api in _GIVEN and is_device(site, node):
                    yield self._make_finding(site, node)
                elif _is_function(site, node):
                    yield self._report_uncalled_function(site, node)
                elif site.api == "jax.device_put" and _is_string(site, node):
                    yield self._report_string(site, node)

    def _report_uncalled_function(self, site: Site, node: ast.expr) -> Finding:
        text = site.shown(node)
        name = site.short_name
        return site.finding(
            node,
            f"`{name}` raises: `{text}` is a function. Its call is missing.",
            help=f"call it: `{text}()`",
        )

    def _report_string(self, site: Site, node: ast.expr) -> Finding:
        return site.finding(
            node,
            "`device_put` raises ValueError: it takes a device or a sharding, not a string.",
            help=f"write `jax.local_devices(backend={site.text(node)})[0]` for a platform, "
            "`NamedSharding(mesh, P(...))` for an axis",
        )

    def _make_finding(self, site: Site, node: ast.expr) -> Finding:
        error = "ValueError" if site.api == "jax.ShapeDtypeStruct" else "TypeError"
        text = site.shown(node)
        return site.finding(
            node,
            f"`{site.short_name}` raises {error}: `{text}` is a device, not a sharding.",
            help=f"write `SingleDeviceSharding({text})`, or use `jax.device_put` outside of jit",
            fix=self._write_fix(site, node),
        )

    def _write_fix(self, site: Site, node: ast.expr) -> Fix | None:
        if site.api == _CONSTRAINT and site.region.traced in ("always", "sometimes"):
            return None
        name, imports = site.spell("jax.sharding.SingleDeviceSharding")
        start, end = site.file.character_span(node)
        edits = [Edit(start, start, f"{name}("), Edit(end, end, ")"), *imports]
        return site.fix(Safety.SAFE, f"write {name}({' '.join(site.text(node).split())})", edits)


def _is_function(site: Site, node: ast.expr) -> bool:
    """True for an undecorated function or method of the project."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    return all(
        isinstance(one, Function)
        and isinstance(one.node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not one.node.decorator_list
        for one in options(site.value(node))
    )


def _is_string(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is surely a string."""
    return all(isinstance(one, Constant) and isinstance(one.value, str) for one in options(site.value(node)))


def _list_leaves(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions at the leaves of a tree that is written out."""
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from _list_leaves(element)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _list_leaves(value)
    elif isinstance(node, ast.expr):
        yield node
