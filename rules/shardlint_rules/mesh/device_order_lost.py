"""SL335."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.signatures import of_definition
from shardlint.model.values import Api, Function, Value, options
from shardlint.rules_api.rule import Attributes, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk

_HOLDING = ("list", "tuple", "sorted", "set", "array", "asarray", "reshape", "flatten", "cast")
_DEPTH = 6


class DeviceOrderLost(Rule):
    """A mesh is made of the devices of an array, which are a set.

    ## What it does
    Reports `sharding.device_set` and `sharding.addressable_devices` where they become the devices of a mesh: as a list,
    sorted, collected over a tree, by name, or by a function of the project that makes a mesh of its parameter.

    ## Why it hurts
    A set has no order, and sorting by id gives another one than that of the array's mesh (`jax.make_mesh` orders
    devices by the network between them). A jitted call that gets both raises `Received incompatible devices for jitted
    computation`. On several hosts each may make a mesh of its own.

    ## Use instead
    `sharding.mesh`, or `sharding.mesh.devices` for one with other axes.

    ## Evidence
    The proof puts the devices of an array into another order. Left alone: counts, single devices, questions for the
    platform, and lists that no mesh is made of.
    """

    code = "SL335"
    name = "device-order-lost"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("sorted",)
    triggers = (Attributes("device_set", "addressable_devices"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a set of devices."""
        end = self._becomes_mesh(site, site.syntax, 0)
        if end is None:
            return
        node, ordered = end
        yield site.finding(
            node,
            "a mesh of devices that were in a set",
            "The devices have lost the order of the array's mesh, and a call that gets arrays of both meshes raises "
            "ValueError.",
            help="take sharding.mesh, or sharding.mesh.devices",
            certainty=Certainty.POSSIBLE,
            form="sorted" if ordered else "set",
            why=f"`{site.text(site.syntax)}` is a set" + (", sorted here" if ordered else ""),
        )

    def _becomes_mesh(self, site: Site, node: ast.AST, depth: int) -> tuple[ast.AST, bool] | None:
        """Where a value becomes the devices of a mesh (or is put in an order on the way), and whether it is sorted."""
        if depth > _DEPTH:
            return None
        file = site.file
        outer = file.parent(node)
        outer = file.parent(outer) if isinstance(outer, ast.keyword) else outer
        match outer:
            case ast.Attribute(attr="flatten" | "reshape" | "tolist"):
                return self._becomes_mesh(site, outer, depth + 1)
            case ast.Call(func=func) if func is node:
                return self._becomes_mesh(site, outer, depth + 1)
            case ast.Call(func=ast.Attribute(attr="update" | "extend", value=ast.Name() as held)):
                return self._named(site, held, depth)
            case ast.Call(func=func) if last_name(func) in _HOLDING:
                found = self._becomes_mesh(site, outer, depth + 1)
                return (outer, True) if found is not None and last_name(func) == "sorted" else found
            case ast.Call(func=func):
                return (outer, False) if self._makes(site, outer, node) else None
            case ast.Assign(targets=[ast.Name() as held]) | ast.AnnAssign(target=ast.Name() as held):
                return self._named(site, held, depth)
            case ast.AugAssign(target=ast.Name() as held):
                return self._named(site, held, depth)
        return None

    def _named(self, site: Site, name: ast.Name, depth: int) -> tuple[ast.AST, bool] | None:
        """The same of what a name holds, in the functions around it."""
        for scope in site.file.home(name).outward():
            if not site.file.bindings(scope, name.id) or scope.kind == "module":
                continue
            for use in site.file.mentions_in(scope, name.id):
                if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load) and use is not name:
                    found = self._becomes_mesh(site, use, depth + 1)
                    if found is not None:
                        return found
            return None
        return None

    def _makes(self, site: Site, call: ast.Call, argument: ast.AST) -> bool:
        """Whether a call makes a mesh of an argument, itself or in a function of the project."""
        for option in options(site.value(call.func)):
            if isinstance(option, Api) and option.name in MESH_MAKERS:
                return True
            if _makes_of(option, call, argument):
                return True
        return False


def _makes_of(value: Value, call: ast.Call, argument: ast.AST) -> bool:
    if not isinstance(value, Function) or not isinstance(value.node, ast.FunctionDef):
        return False
    parameters = of_definition(value.node)
    names = (parameters.without_first() if value.bound else parameters).positional
    keyword = next((one.arg for one in call.keywords if one.value is argument), None)
    place = next((n for n, one in enumerate(call.args) if one is argument), len(names))
    name = keyword or (names[place] if place < len(names) else None)
    return name is not None and any(
        isinstance(part, ast.Name) and part.id == name
        for made in walk(value.node)
        if isinstance(made, ast.Call) and last_name(made.func) in ("Mesh", "make_mesh", "create_device_mesh")
        for part in walk(made)
    )
