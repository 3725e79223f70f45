"""SL602."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Api, Constant, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Lines, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import sole_assigned_value
from shardlint.syntax.nodes import walk_nodes

_ENTER = "haliax.axis_mapping"
_SHARD = "haliax.shard"
_JIT = "haliax.named_jit"
_RESOURCES = ("axis_resources", "in_axis_resources", "out_axis_resources")
_NAMING = ("Axis", "make_axes", "named", "NamedArray")
_ALIKE = 0.8


class AxisMappingKey(Rule):
    """An axis mapping has a key or a mesh axis that does not exist.

    An unknown mesh axis raises ValueError at the first array that has the mapped axis. A misspelled key raises nothing:
    the axis that you mean is not sharded.

    ## Reports
    - proven: a mesh axis that the mesh in context, or the mesh argument, does not have.
    - proven: a mapping of two axes of one array to the same mesh axis. The call raises.
    - proven: a key that is the name of no `Axis` of the file, if an `Axis` has nearly the same name. For a mapping that
      is the default of a class field, shardlint compares with every `Axis` of the project.
    - proven: a key in `axis_mapping(..., merge=True)`, if the outer mapping maps it to another mesh axis. The entry has
      no effect: haliax uses the outer mapping.

    ## Fix
    Corrects the spelling of the key. Unsafe: the axis is now sharded, and a size that the mesh axis does not divide
    raises.

    ## Limits
    Not reported: an inner mapping without `merge=True`, which replaces the outer mapping.
    """

    code = "SL602"
    name = "axis-mapping-key"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    triggers = (
        Violates("mapping.axis", "mapping.twice", "mapping.outer"),
        Calls(_ENTER, _SHARD, _JIT),
        Lines(r"\w*axis_(?:resources|mapping)\w*\s*[:=]", saying=("axis_",)),
    )
    in_version_checks = False
    fixes = "unsafe"

    @detector("violation", of="mapping.axis")
    def report_axis(self, site: Site) -> Finding:
        """An entry with an axis that the mesh does not have."""
        said = site.violation.said
        return site.report_violation(
            f"Sharding an array with the axis `{said['axis']}` raises ValueError: the mesh has no axis "
            f"`{said['missing']}`.",
            why=f"the mesh ({said['mesh']}) is made at line {said['line']}; checked for {site.release('haliax')}",
            help=f"remove `{said['missing']}`, or write an axis of the mesh in its place",
            harm=Harm.CRASH,
        )

    @detector("violation", of="mapping.twice")
    def report_collision(self, site: Site) -> Finding:
        """Two entries with one mesh axis, of axes of one array."""
        said = site.violation.said
        return site.report_violation(
            f"This raises an error: the axes `{said['first']}` and `{said['second']}` of one array are both "
            f"sharded over `{said['axis']}`.",
            why=f"the array is `{said['array']}`, and a mesh axis can shard only one of its dimensions",
            help="map one of the two axes to another mesh axis, or remove its entry",
            harm=Harm.CRASH,
        )

    @detector("violation", of="mapping.outer")
    def report_override(self, site: Site) -> Finding:
        """An entry that an outer mapping overrides."""
        said = site.violation.said
        return site.report_violation(
            f"The entry `{said['axis']}` has no effect: with merge=True haliax uses the outer mapping.",
            why=f"the mapping written at line {said['line']} maps `{said['axis']}` to another mesh axis",
            help="enter one mapping with all entries, without `merge=True`",
        )

    @detector("call", "partial")
    def find_keys(self, site: Site) -> Iterator[Finding]:
        """The keys of a mapping that is passed."""
        for name in _RESOURCES if site.api == _JIT else ("mapping",):
            argument = site.argument(name)
            for key, node in _list_keys(site, argument).items() if argument is not None else ():
                found = self._report_misspelled_axis(site, node, key)
                if found is not None:
                    yield found

    @detector("line")
    def find_keys_of_field(self, site: Site) -> Iterator[Finding]:
        """The keys of a mapping that a class keeps by default."""
        statement = site.syntax
        if not isinstance(statement, ast.AnnAssign) or statement.value is None or site.scope.kind != "class":
            return
        for table in walk_nodes(statement.value):
            for key in table.keys if isinstance(table, ast.Dict) else ():
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found = self._report_misspelled_axis(site, key, key.value, everywhere=True)
                    if found is not None:
                        yield found

    def _report_misspelled_axis(
        self, site: Site, node: ast.expr, key: str, everywhere: bool = False
    ) -> Finding | None:
        if not isinstance(node, ast.Constant):
            return None
        axes = [one for file in _list_files(site, everywhere) for one in _find_declared(site, file)]
        near = difflib.get_close_matches(key, axes, 1, _ALIKE)
        if key in axes or not near or _is_key_used_elsewhere(site, key):
            return None
        text = site.text(node)
        right = f"{text[0]}{near[0]}{text[-1]}" if text[1:-1] == key else repr(near[0])
        edit = site.replace(node, right)
        why = "arrays with this axis get another sharding"
        return site.finding(
            node,
            f"The axis `{near[0]}` is not sharded: the mapping has the key `{key}`.",
            label=f"did you mean {near[0]!r}?",
            why=f"{site.release('haliax')} ignores keys that no axis has",
            fix=site.fix(Safety.UNSAFE, f"write {right}", [edit], why),
        )


def _list_keys(site: Site, argument: ast.expr) -> dict[str, ast.expr]:
    """The keys as they stand in this file."""
    node: ast.AST | None = argument
    if isinstance(argument, ast.Name):
        node = sole_assigned_value(site.file, argument)
    if not isinstance(node, ast.Dict):
        return {}
    return {
        key.value: key for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _list_files(site: Site, everywhere: bool) -> Iterator[FileFacts]:
    """The file of a site, and where asked for those that run with it and make axes, if all can be read."""
    others = list(site.program.project.files_calling(site.file.path, ("Axis", "make_axes"))) if everywhere else []
    yield from [site.file, *(one for one in others if one is not None and one is not site.file)]


def _find_declared(site: Site, file: FileFacts) -> list[str]:
    """Names of the axes that a file makes."""
    found = []
    for word in ("Axis", "make_axes"):
        for node in file.find_mentions(word):
            call = file.parent(node)
            if not isinstance(call, ast.Call) or call.func is not node:
                continue
            apis = [
                option.name for option in options(site.program.value(file, node)) if isinstance(option, Api)
            ]
            if "haliax.Axis" in apis:
                given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "name")]
                names = [site.program.value(file, one) for one in given]
                found += [
                    one.value for one in names if isinstance(one, Constant) and isinstance(one.value, str)
                ]
            elif "haliax.make_axes" in apis:
                found += [one.arg for one in call.keywords if one.arg]
    return found


def _is_key_used_elsewhere(site: Site, key: str) -> bool:
    """Return whether a file that names axes uses the key other than as the key of a mapping."""
    said = re.compile(rf"""(['"]){re.escape(key)}\1(?!\s*:)|\b{re.escape(key)}\s*=[^=]""")
    if said.search(site.file.source.text):
        return True
    return any(
        file is None or said.search(file.source.text)
        for file in site.program.project.files_calling(site.file.path, _NAMING)
    )
