"""SL822."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.bound_names import settled_expression
from shardlint.facts.processes.all_devices import mesh_of_all
from shardlint.model.values import CallResult, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.single_process_code import (
    is_for_several_processes,
    is_reached_with_one_process,
)

_MAKES = "jax.make_array_from_single_device_arrays"
# What tells the devices of this process from others, and what shows that one process is meant.
_TOLD = compile_lazily(r"addressable|process_index|local_devices|local_mesh|host_id|process_count\(\) == 1")
_THROUGH = ("zip", "enumerate", "list", "tuple", "array", "asarray")
_FLAT = ("flatten", "ravel", "reshape", "tolist", "items", "keys", "copy")


class ArraysForAllDevices(Rule):
    """`make_array_from_single_device_arrays` gets one array for each device of all processes.

    It takes arrays only for the devices of the calling process. With several processes it raises
    `ValueError: Expected 4 per-device arrays (this is how many devices are addressable by the sharding), but got 8`.
    With one process there is no symptom.

    ## Reports
    Reported only in multi-process programs: the code calls `jax.distributed.initialize`, `jax.process_index` or
    `jax.process_count`.

    - `global-devices` (likely): `arrays` has one entry for each device of all processes. The code loops over
      `jax.devices()`, over a mesh of all devices, or over `sharding.devices_indices_map(shape)`, or calls
      `jax.device_put(parts, devices)`. A function that selects local devices is not reported.

    ## Write instead
    Loop over `sharding.addressable_devices_indices_map(shape)` or `mesh.local_devices`, or write
    `jax.make_array_from_callback(shape, sharding, lambda index: x[index])`.
    """

    code = "SL822"
    name = "arrays-for-all-devices"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("global-devices",)
    assumptions: ClassVar[Mapping[str, str]] = {"global-devices": "The program runs on more than one process."}
    triggers = (Calls(_MAKES),)
    closed = ("positional", "keywords")
    fixes = "none"

    @detector("call", finds="global-devices")
    def report_arrays(self, site: Site) -> Finding | None:
        """The arrays that are made for the devices of all processes."""
        given = site.argument("arrays")
        function = site.scope.enclosing_function()
        around = site.text(function.node) if function is not None else site.file.source.text
        if given is None or _TOLD.search(around) or site.program.project.is_test(site.file.path):
            return None
        if not is_for_several_processes(site.program, site.file):
            return None
        devices = _devices_with_an_array(site, given)
        if devices is None or is_reached_with_one_process(site.program, Place(site.file, site.call)):
            return None
        what = " ".join(devices.source_text().split())
        return site.finding(
            given,
            "With several processes this raises ValueError: the arrays are for the devices of all processes.",
            help="loop over `sharding.addressable_devices_indices_map(shape)`, or write `jax.make_array_from_callback`",
            why=f"the arrays are made for `{what}`, and the function takes one array for each device of this process",
        )


def _devices_with_an_array(site: Site, node: ast.expr) -> Place | None:
    """The devices, those of all processes, for each of which a list has an array."""
    file, made = site.file, settled_expression(site.file, node)
    match made:
        case ast.ListComp(generators=[ast.comprehension(iter=listed, ifs=[])]) if (
            "device_put" in file.source_text(made.elt)
        ):
            return _all_devices_iterated(site, listed)
        case ast.List(elts=[]) if isinstance(node, ast.Name):
            return _find_filling_loop(site, node)
        case ast.Call(args=[_, devices]) if last_name(made.func) == "device_put":
            return _all_devices_iterated(site, devices)
    return None


def _find_filling_loop(site: Site, use: ast.Name) -> Place | None:
    """The devices that a loop goes over which appends an array to a list for each."""
    file = site.file
    for mention in file.mentions_in(file.evaluation_scope(use), use.id):
        method = file.parent(mention)
        call = file.parent(method) if isinstance(method, ast.Attribute) and method.attr == "append" else None
        statement = file.parent(call) if isinstance(call, ast.Call) else None
        loop = file.parent(statement) if isinstance(statement, ast.Expr) else None
        if isinstance(loop, ast.For) and statement in loop.body and "device_put" in file.source_text(loop):
            skips = any(isinstance(one, ast.Continue | ast.Break) for one in walk_nodes(loop))
            return _all_devices_iterated(site, loop.iter) if not skips else None
    return None


def _all_devices_iterated(site: Site, node: ast.expr) -> Place | None:
    """The devices of all processes that are gone over: by themselves, in a `zip`, or as an array."""
    node = settled_expression(site.file, node)
    made = options(site.value(node))
    if all(isinstance(one, CallResult) and one.api == "jax.devices" for one in made):
        return Place(site.file, node)
    match node:
        case ast.Call(func=ast.Attribute(attr="devices_indices_map")):
            return Place(site.file, node)
        case ast.Attribute(value=mesh, attr="devices"):
            found = options(site.program.followed(site.value(mesh)))
            of_all = bool(found) and all(mesh_of_all(site.program, one) for one in found)
            return Place(site.file, node) if of_all else None
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _FLAT:
            return _all_devices_iterated(site, inner)
        case ast.Attribute(value=inner, attr="flat"):
            return _all_devices_iterated(site, inner)
        case ast.Call(args=args) if last_name(node.func) in _THROUGH:
            return next(filter(None, (_all_devices_iterated(site, one) for one in args)), None)
    return None
