"""SL305."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.shardings import is_spec
from shardlint.model.api import DEVICE_LISTS
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import CallResult, Constant, Items, Value, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings
from shardlint_rules.mesh._called_devices import reason_meant_as_devices
from shardlint_rules.mesh.spec_parts import part_of_spec

_SPEC = "jax.sharding.PartitionSpec"
_DEVICES = (*DEVICE_LISTS, "jax.experimental.mesh_utils.create_device_mesh")
_KEEPERS = ("numpy.array", "numpy.asarray", "numpy.reshape")
_METHODS = ("reshape", "transpose", "flatten", "ravel")
# What can be given to a PartitionSpec as it is written.
_WRITTEN = (ast.Constant, ast.Tuple, ast.List, ast.Name, ast.Subscript, ast.Call, ast.BinOp, ast.IfExp)
_MEMORIES = ("device", "pinned_host", "unpinned_host")


class NamedShardingArguments(Rule):
    """`NamedSharding` gets something other than a mesh and a spec.

    The call raises an error from inside jax, for example `'str' object has no attribute 'partitions'`.

    ## Reports
    - proven: a string, `None`, or a tuple or list of axis names as the spec. `spec[1:]`, `tuple(spec)` and
      `(*spec, None)` are tuples.
    - proven: axis names as separate arguments: `NamedSharding(mesh, "data", None)`.
    - proven: the spec first and the mesh second.
    - proven: devices, or an array of devices, as the mesh.
    - `devices` (likely): a variable as the mesh, if another line passes it to `Mesh` as the devices. Also a parameter
      called `devices`, if the function has a parameter `mesh` too.

    ## Fix
    Wraps the names in `PartitionSpec`, or swaps mesh and spec. Devices as the mesh have no fix.

    ## Limits
    Not reported, because `NamedSharding` accepts them: `None` and an empty tuple up to jax 0.4.38, any tuple on jax
    0.5, and `spec[1:] + P(None)` since jax 0.6, where it is a spec.
    """

    code = "SL305"
    name = "namedsharding-arguments"
    harm = Harm.CRASH
    assumes = True
    likely = ("devices",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "devices": "The variable holds devices, as its other uses suggest."
    }
    triggers = (Calls("jax.sharding.NamedSharding"),)
    closed = ("positional",)
    fixes = "safe"

    @detector("call")
    def report_order(self, site: Site) -> Finding | None:
        """A spec in the place of the mesh."""
        mesh, spec = site.argument("mesh"), site.argument("spec")
        if mesh is None or spec is None or not is_spec(site.value(mesh)):
            return None
        second = site.value(spec)
        fix: Fix | None = None
        says_mesh = "mesh" in site.text(spec).lower() or _is_mesh(second)
        if says_mesh and not is_spec(second):
            edits = [site.replace(mesh, site.text(spec)), site.replace(spec, site.text(mesh))]
            swapped = f"{site.text(site.call.func)}({site.text(spec)}, {site.text(mesh)})"
            fix = site.fix(Safety.SAFE, f"write {swapped}", edits)
        kind = "AttributeError" if site.allows("jax", ">=0.9") or site.allows("jax", "<0.5") else "TypeError"
        return site.finding(
            mesh,
            f"On {site.release('jax')} `NamedSharding` raises {kind}: its first argument is a spec, not a mesh.",
            label="a spec, not a mesh",
            help="pass the mesh first, then the spec",
            fix=fix,
        )

    @detector("call")
    def report_spec(self, site: Site) -> Finding | None:
        """A string, a tuple or None in the place of the spec."""
        spec = site.argument("spec")
        if spec is None or site.argument("mesh") is None:
            return None
        if part_of_spec(site, spec):
            return self._report_tuple(site, spec, "part of a spec is a tuple", empty=False)
        found = options(site.value(spec))
        if len(found) != 1:
            return None
        match found[0]:
            case Constant(value=str()):
                return self._report_string(site, spec)
            case Constant(value=None) if (
                site.allows("jax", ">=0.5.3") and not site.assuming
            ):  # else SL319 speaks
                return self._report_none(site, spec)
            case Items(kind="tuple" | "list", items=items, open=False) if all(map(_is_spec_entry, items)):
                kind = "list" if isinstance(spec, ast.List) else "tuple"
                return self._report_tuple(site, spec, f"a {kind}, not a spec", empty=not items)
        return None

    def _report_tuple(self, site: Site, spec: ast.expr, label: str, *, empty: bool) -> Finding | None:
        if site.allows("jax", ">=0.5,<0.6") or (empty and site.allows("jax", "<0.6")):
            return None
        return self._report_wrong_spec(site, spec, label, self._spec_arguments_text(site, spec))

    def _spec_arguments_text(self, site: Site, spec: ast.expr) -> str:
        """The arguments of the PartitionSpec that a tuple or list was meant as."""
        if isinstance(spec, ast.Tuple | ast.List):
            return ", ".join(site.text(element) for element in spec.elts)
        if isinstance(spec, ast.Call) and part_of_spec(site, spec):
            return f"*{site.text(spec.args[0])}"  # `tuple(spec)`
        return f"*({site.text(spec)})" if isinstance(spec, ast.BinOp | ast.IfExp) else f"*{site.text(spec)}"

    def _report_string(self, site: Site, spec: ast.expr) -> Finding:
        """A string, and the axis names that follow it as further arguments."""
        rest = site.call.args[2:] if spec in site.call.args else []
        values = [site.value(node) for node in rest]
        if rest and all(isinstance(value, Constant) and value.value not in _MEMORIES for value in values):
            start, end = site.file.character_span(spec)[0], site.file.character_span(rest[-1])[1]
            inner = ", ".join(site.text(node) for node in (spec, *rest))
            return self._report_wrong_spec(site, spec, "axis names, not a spec", inner, span=(start, end))
        return self._report_wrong_spec(site, spec, "a string, not a spec", site.text(spec))

    def _report_none(self, site: Site, spec: ast.expr) -> Finding:
        fix: Fix | None = None
        if isinstance(spec, ast.Constant):
            name, imports = site.spell(_SPEC)
            fix = site.fix(Safety.SAFE, f"write {name}()", [site.replace(spec, f"{name}()"), *imports])
        return site.finding(
            spec,
            f"On {site.release('jax')} `NamedSharding` raises TypeError: its spec is None.",
            label="None, not a spec",
            help="write `PartitionSpec()` for replicated",
            fix=fix,
        )

    def _report_wrong_spec(
        self, site: Site, spec: ast.expr, label: str, inner: str, span: tuple[int, int] | None = None
    ) -> Finding:
        start, end = span or site.file.character_span(spec)
        fix: Fix | None = None
        if isinstance(spec, _WRITTEN):
            name, imports = site.spell(_SPEC)
            edit = Edit(start, end, f"{name}({inner})")
            fix = site.fix(Safety.SAFE, f"write {name}({inner})", [edit, *imports])
        hashed = site.allows("jax", ">=0.9") and not isinstance(spec, ast.List)
        return site.finding(
            spec,
            f"On {site.release('jax')} `NamedSharding` raises {'AttributeError' if hashed else 'TypeError'}: its "
            "second argument is not a `PartitionSpec`.",
            label=label,
            help="wrap the names in `PartitionSpec`",
            fix=fix,
            span=(start, end),
        )

    @detector("call")
    def report_devices(self, site: Site) -> Finding | None:
        """Devices in the place of the mesh."""
        mesh = _find_mesh(site)
        return _report_devices(site, mesh) if mesh is not None and _holds_devices(site, mesh, 0) else None

    @detector("call", finds="devices")
    def report_called_devices(self, site: Site) -> Finding | None:
        """A name in the place of the mesh whose other uses are those of devices."""
        mesh = _find_mesh(site)
        why = reason_meant_as_devices(site, mesh) if mesh is not None else ""
        return _report_devices(site, mesh, why) if mesh is not None and why else None


def _find_mesh(site: Site) -> ast.expr | None:
    """The first argument, if there is a second one."""
    return site.argument("mesh") if site.argument("spec") is not None else None


def _report_devices(site: Site, mesh: ast.expr, why: str = "") -> Finding:
    return site.finding(
        mesh,
        f"On {site.release('jax')} `NamedSharding` raises AttributeError: its first argument holds devices, not a "
        "mesh.",
        label="devices, not a mesh",
        help=f"write `jax.sharding.Mesh({site.text(mesh)}, axis_names)`, with one axis name per dimension",
        why=why,
    )


def _is_spec_entry(value: Value) -> bool:
    """Return whether a value can be an entry of a spec."""
    if isinstance(value, Items):
        return not value.open and all(map(_is_spec_entry, value.items))
    return isinstance(value, Constant) and (value.value is None or isinstance(value.value, str))


def _is_mesh(value: Value) -> bool:
    return all(isinstance(option, CallResult) and option.api in MESH_MAKERS for option in options(value))


def _holds_devices(site: Site, node: ast.AST, depth: int) -> bool:
    """Return whether an expression is surely devices or an array of them."""
    if depth > 6:
        return False
    if isinstance(node, ast.Subscript) and _holds_devices(site, node.value, depth + 1):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        return _holds_devices(site, node.func.value, depth + 1)
    if isinstance(node, ast.Name):
        bindings, _ = lookup_bindings(site.file, node, node.id)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            return False
        return _holds_devices(site, bindings[0].value, depth + 1)
    value = site.value(node)
    if not isinstance(value, CallResult) or value.call is None:
        return False
    if value.api in _DEVICES:
        return True
    first = value.call.positional[0] if value.api in _KEEPERS and value.call.positional else None
    return first is not None and first.file is site.file and _holds_devices(site, first.node, depth + 1)
