"""SL602."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import Context
from shardlint.model.mesh.mappings import AXIS_MAPPING
from shardlint.model.reach import assigned_once
from shardlint.model.values import Api, Constant, Items, Table, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Lines, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk

_SHARD = "haliax.shard"
_JIT = "haliax.named_jit"
_RESOURCES = ("axis_resources", "in_axis_resources", "out_axis_resources")
_NAMING = ("Axis", "make_axes", "named", "NamedArray")
_AXES = ("haliax.Axis", "haliax.axis.Axis")
_ALIKE = 0.8


class AxisMappingKey(Rule):
    """An axis mapping has a key or a mesh axis that does not exist.

    An unknown mesh axis raises at the first array with the key's axis. A misspelled key is silent: the axis it was
    meant for is not sharded.

    ## Reports
    - proven: a mesh axis that the mesh in context, or the mesh argument, does not have.
    - proven: a key that no `Axis` of the file has, if an `Axis` has nearly the same name. Also in a mapping that a
      class has as a field default, against every `Axis` of the project.
    - proven: in `axis_mapping(..., merge=True)`, a key that the outer mapping maps to another mesh axis. The outer
      mapping wins.

    ## Fix
    Unsafe: the axis is sharded from then on, and a mesh that does not divide it raises.

    ## Limits
    Without `merge` the inner mapping replaces the outer one, which is not reported.
    """

    code = "SL602"
    name = "axis-mapping-key"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    triggers = (
        Calls(AXIS_MAPPING, _SHARD, _JIT),
        Lines(r"\w*axis_(?:resources|mapping)\w*\s*[:=]", saying=("axis_",)),
    )
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for an entry of a mapping."""
        if site.form == "line":
            yield from self._field(site)
            return
        names = _RESOURCES if site.api == _JIT else ("mapping",)
        for name in names:
            argument = site.argument(name)
            table = site.value(argument) if argument is not None else None
            if argument is None or not isinstance(table, Table):
                continue
            keys = _keys(site, argument)
            for key, value in table.entries:
                if isinstance(key, str):
                    found = self._entry(site, keys.get(key, argument), key, value)
                    if found is not None:
                        yield found

    def _field(self, site: Site) -> Iterator[Finding]:
        """A mapping that a class keeps by default."""
        statement = site.syntax
        if not isinstance(statement, ast.AnnAssign) or statement.value is None or site.scope.kind != "class":
            return
        for table in walk(statement.value):
            for key in table.keys if isinstance(table, ast.Dict) else ():
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found = self._misspelled(site, key, key.value, everywhere=True)
                    if found is not None:
                        yield found

    def _entry(self, site: Site, node: ast.expr, key: str, value: Value) -> Finding | None:
        return (
            self._unknown(site, node, key, value)
            or self._misspelled(site, node, key)
            or self._outer(site, node, key, value)
        )

    def _unknown(self, site: Site, node: ast.expr, key: str, value: Value) -> Finding | None:
        meshes = _meshes(site)
        axes = _axes(value)
        if not meshes or axes is None:
            return None
        missing = [axis for axis in axes if all(axis not in mesh for mesh in meshes)]
        if not missing:
            return None
        there = ", ".join(meshes[0])
        return site.finding(
            node,
            f"The first array with the axis `{key}` raises ValueError: the mesh has no axis `{missing[0]}`.",
            why=f"the mesh has the axes {there}; checked for {site.release('haliax')}",
            help="name an axis of the mesh",
            harm=Harm.CRASH,
        )

    def _misspelled(self, site: Site, node: ast.expr, key: str, everywhere: bool = False) -> Finding | None:
        if not isinstance(node, ast.Constant):
            return None
        axes = [one for file in _files(site, everywhere) for one in _declared(site, file)]
        near = difflib.get_close_matches(key, axes, 1, _ALIKE)
        if key in axes or not near or _named_elsewhere(site, key):
            return None
        text = site.text(node)
        right = f"{text[0]}{near[0]}{text[-1]}" if text[1:-1] == key else repr(near[0])
        edit = site.replace(node, right)
        why = "arrays with this axis get another sharding"
        return site.finding(
            node,
            f"The axis `{near[0]}` is not sharded: the mapping spells it `{key}`.",
            label=f"did you mean {near[0]!r}?",
            why=f"{site.release('haliax')} ignores keys that no axis has",
            fix=site.fix(Safety.UNSAFE, f"write {right}", [edit], why),
        )

    def _outer(self, site: Site, node: ast.expr, key: str, value: Value) -> Finding | None:
        merge = site.keyword("merge")
        if site.api != AXIS_MAPPING or merge is None or site.value(merge.value) != Constant(True):
            return None
        around = site.program.axis_mappings(site.file, site.call)
        if not around.always or len(around.found) != 1:
            return None
        outer = around.found[0]
        theirs = outer.value.get(key) if isinstance(outer.value, Table) else None
        if theirs is None or _axes(theirs) is None or _axes(theirs) == _axes(value):
            return None
        where = f"line {outer.place.line}"
        return site.finding(
            node,
            f"The entry `{key}` has no effect: with merge=True the outer mapping wins.",
            why=f"the mapping entered at {where} maps `{key}` to another mesh axis",
            help="enter one mapping with all entries, without merge=True",
        )


def _keys(site: Site, argument: ast.expr) -> dict[str, ast.expr]:
    """The keys as they stand in this file."""
    node: ast.AST | None = argument
    if isinstance(argument, ast.Name):
        node = assigned_once(site.file, argument)
    if not isinstance(node, ast.Dict):
        return {}
    return {
        key.value: key for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _axes(value: Value) -> tuple[str, ...] | None:
    """The mesh axes that an entry names, where all are known."""
    if isinstance(value, Constant):
        return (value.value,) if isinstance(value.value, str) else None
    if not isinstance(value, Items) or value.open:
        return None
    names = [item.value for item in value.items if isinstance(item, Constant)]
    texts = tuple(name for name in names if isinstance(name, str))
    return texts if len(texts) == len(value.items) else None


def _meshes(site: Site) -> list[tuple[str, ...]]:
    """Axis names of every mesh the mapping can meet; none where one of them is not known."""
    if site.api == _SHARD:
        given = site.argument("mesh")
        if given is not None and site.value(given) != Constant(None):
            mesh = site.mesh_of(site.value(given))
            return [mesh.axis_names] if mesh is not None and mesh.axis_names else []
    context = _context(site)
    if context is None or not context.complete or not context.contexts:
        return []
    found = [one.mesh.axis_names for one in context.contexts if one.mesh is not None and one.mesh.axis_names]
    return found if len(found) == len(context.contexts) else []


def _context(site: Site) -> Context | None:
    if site.api == _SHARD:
        return site.context
    if site.api == AXIS_MAPPING:
        item = site.file.parent(site.call)
        block = site.file.parent(item) if isinstance(item, ast.withitem) else None
        if isinstance(block, ast.With):
            return site.program.context(site.file, block.body[0])
        return None
    called = site.decorated or site.call
    return site.program.call_context(site.file, called) if site.form == "call" else None


def _files(site: Site, everywhere: bool) -> Iterator[FileFacts]:
    """The file of a site, and where asked for those that run with it and make axes, if all can be read."""
    others = list(site.program.project.calling(site.file.path, ("Axis", "make_axes"))) if everywhere else []
    yield from [site.file, *(one for one in others if one is not None and one is not site.file)]


def _declared(site: Site, file: FileFacts) -> list[str]:
    """Names of the axes that a file makes."""
    found = []
    for word in ("Axis", "make_axes"):
        for node in file.mentions(word):
            call = file.parent(node)
            if not isinstance(call, ast.Call) or call.func is not node:
                continue
            apis = [
                option.name for option in options(site.program.value(file, node)) if isinstance(option, Api)
            ]
            if any(name in _AXES for name in apis):
                given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "name")]
                names = [site.program.value(file, one) for one in given]
                found += [
                    one.value for one in names if isinstance(one, Constant) and isinstance(one.value, str)
                ]
            elif "haliax.make_axes" in apis:
                found += [one.arg for one in call.keywords if one.arg]
    return found


def _named_elsewhere(site: Site, key: str) -> bool:
    """Whether a file that names axes says the key anywhere but as the key of a mapping."""
    said = re.compile(rf"""(['"]){re.escape(key)}\1(?!\s*:)|\b{re.escape(key)}\s*=[^=]""")
    if said.search(site.file.source.text):
        return True
    return any(
        file is None or said.search(file.source.text)
        for file in site.program.project.calling(site.file.path, _NAMING)
    )
