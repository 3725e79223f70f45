"""SL822."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.process.all_devices import mesh_of_all
from shardlint.model.process.processes import asks_itself, several
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallResult, Function, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes.alone import alone

_MAKES = "jax.make_array_from_single_device_arrays"
_DEPTH = 4
# What tells the devices of this process from others, and what shows that one process is meant.
_TOLD = regex(r"addressable|process_index|local_devices|local_mesh|host_id|process_count\(\) == 1")
_THROUGH = ("zip", "enumerate", "sorted", "list", "tuple", "reversed", "tqdm")
_FLAT = ("flatten", "ravel", "reshape", "tolist", "items", "keys", "copy")


class ArraysForAllDevices(Rule):
    """`make_array_from_single_device_arrays` gets an array for each device of all processes.

    It takes those of this process only. On several processes it raises `ValueError: Expected 4 per-device arrays (this
    is how many devices are addressable by the sharding), but got 8`. With one process nothing shows.

    ## Reports
    Only in programs for several processes, and if nothing in the function selects the devices of its own process:

    - `each` (likely): `arrays` has one for each of `jax.devices()`, of the devices of a mesh of all of them, or of
      `sharding.devices_indices_map(shape)`; a loop, a comprehension or `jax.device_put(parts, devices)` makes them.
    - `asked` (possible): the same, if only another file asks for the process.

    ## Write instead
    `sharding.addressable_devices_indices_map(shape)`, `mesh.local_devices`, or `jax.make_array_from_callback`.
    """

    code = "SL822"
    name = "arrays-for-all-devices"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("each",)
    assumptions: ClassVar[Mapping[str, str]] = {"each": "The program runs on more than one process."}
    triggers = (Calls(_MAKES),)
    forms = ("call",)
    closed = ("positional", "keywords")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        given = site.argument("arrays")
        function = site.scope.function()
        around = site.text(function.node) if function is not None else site.file.source.text
        if given is None or _TOLD.search(around) or site.program.project.is_test(site.file.path):
            return
        told = "initialized" if asks_itself(site.file) else several(site.program, site.file)
        if not told:
            return
        devices = _made_for(site, Place(site.file, given), 0)
        if devices is None or alone(site.program, Place(site.file, site.call)):
            return
        what = " ".join(devices.text().split())
        yield site.finding(
            given,
            "On several processes this raises ValueError: it gets arrays for the devices of all processes.",
            help="loop over sharding.addressable_devices_indices_map(shape), or use jax.make_array_from_callback",
            form="each" if told == "initialized" else "asked",
            why=f"they are made for `{what}`, and the function takes one array for each device of this process",
        )


def _made_for(site: Site, place: Place, depth: int) -> Place | None:
    """The devices, those of all processes, for each of which a list has an array."""
    node, file = place.node, place.file
    if depth > _DEPTH:
        return None
    match node:
        case ast.ListComp() | ast.GeneratorExp():
            only = node.generators[0]
            puts = len(node.generators) == 1 and not only.ifs and "device_put" in file.text(node.elt)
            return _all_of(site, Place(file, only.iter), 0) if puts else None
        case ast.Name(id=name):
            bindings, _ = lookup(file, node, name)
            values = [one.value for one in bindings if one.kind in ("assign", "walrus")]
            if len(bindings) != 1 or not values or values[0] is None:
                return None
            if isinstance(values[0], ast.List) and not values[0].elts:
                return _filled(site, file, node, name)
            return _made_for(site, Place(file, values[0]), depth + 1)
        case ast.Call(args=args):
            if last_name(node.func) in ("list", "tuple") and len(args) == 1:
                return _made_for(site, Place(file, args[0]), depth)
            for option in options(site.program.value(file, node.func)):
                if isinstance(option, Api) and option.name == "jax.device_put" and len(args) > 1:
                    return _all_of(site, Place(file, args[1]), 0)
                if isinstance(option, Function) and isinstance(option.node, ast.FunctionDef):
                    inside = option.place.file
                    returns = inside.walked(inside.scope(option.node)).returns
                    if len(returns) == 1 and returns[0].value is not None:
                        return _made_for(site, Place(inside, returns[0].value), depth + 1)
    return None


def _filled(site: Site, file: FileFacts, use: ast.expr, name: str) -> Place | None:
    """The devices that a loop goes over which appends an array to a list for each."""
    for mention in file.mentions_in(file.home(use), name):
        method = file.parent(mention)
        call = file.parent(method) if isinstance(method, ast.Attribute) and method.attr == "append" else None
        statement = file.parent(call) if isinstance(call, ast.Call) else None
        loop = file.parent(statement) if isinstance(statement, ast.Expr) else None
        if isinstance(loop, ast.For) and statement in loop.body and "device_put" in file.text(loop):
            found = _all_of(site, Place(file, loop.iter), 0)
            skips = any(isinstance(one, ast.Continue | ast.Break) for one in walk(loop))
            return found if not skips else None
    return None


def _all_of(site: Site, place: Place, depth: int) -> Place | None:
    """The devices of all processes that are gone over: by themselves, in a `zip`, by a name or as an array."""
    node, file = place.node, place.file
    if depth > _DEPTH:
        return None
    found = options(site.program.value(file, node))
    if all(isinstance(one, CallResult) and one.api == "jax.devices" for one in found):
        return place
    match node:
        case ast.Call(func=ast.Attribute(attr="devices_indices_map")):
            return place
        case ast.Call(func=ast.Name(id=name), args=args) if name in _THROUGH:
            return next(
                (one for one in (_all_of(site, Place(file, arg), depth + 1) for arg in args) if one), None
            )
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _FLAT:
            return _all_of(site, Place(file, inner), depth + 1)
        case ast.Attribute(value=inner, attr="flat"):
            return _all_of(site, Place(file, inner), depth + 1)
        case ast.Attribute(value=mesh, attr="devices"):
            return place if _of_all(site, Place(file, mesh)) else None
        case ast.Call(args=[inner, *_]) if last_name(node.func) in ("array", "asarray"):
            return _all_of(site, Place(file, inner), depth + 1)
        case ast.Name(id=name):
            bindings, _ = lookup(file, node, name)
            one = bindings[0] if len(bindings) == 1 else None
            if one is not None and one.kind == "assign" and one.value is not None:
                return _all_of(site, Place(file, one.value), depth + 1)
    return None


def _of_all(site: Site, mesh: Place) -> bool:
    """Whether a mesh is surely one of the devices of all processes."""
    found = options(site.program.followed(site.program.value(mesh.file, mesh.node)))
    return bool(found) and all(mesh_of_all(site.program, one) for one in found)
