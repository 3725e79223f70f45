"""Logical axis rules: which mesh axes the logical names of Flax stand for, from Python and from YAML configs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.model.mesh.configuration import Configurations
from shardlint.model.values import Api, Constant, Items, Place, Value, options
from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from shardlint.model import Program

SETTERS = ("logical_axis_rules", "axis_rules", "set_logical_axis_rules", "set_axis_rules")
"""What sets logical axis rules, as it is called."""
_GIVEN = {"logical_to_mesh_sharding": 2, "logical_to_mesh": 1}
"""What looks up the names in a tree, and where it takes its rules."""
_KEY = r"\w*(?:logical|axis|axes|sharding|partition)\w*_rules"


@dataclass(frozen=True)
class LogicalRules:
    """Rules in order: each a logical name and the mesh axes it stands for, none where it is left whole on purpose."""

    rules: tuple[tuple[str, tuple[str, ...]], ...]
    configured: bool = False
    """They stand in a configuration file, of which a project may have one for each of several models."""
    assumed: bool = False
    """They are so in the calls in sight, with what is assumed of them."""

    @property
    def ruled_names(self) -> frozenset[str]:
        """The names that have a rule."""
        return frozenset(name for name, _ in self.rules)

    @property
    def lists_all(self) -> bool:
        """True if names that are not sharded are listed too: then one that is missing was forgotten."""
        return any(not axes for _, axes in self.rules)


def logical_rules_of(value: Value) -> LogicalRules | None:
    """The rules that a value is, if the text tells all of them."""
    if not isinstance(value, Items) or value.open or value.kind == "set" or not value.items:
        return None
    found = []
    for item in value.items:
        if not isinstance(item, Items) or item.open or len(item.items) != 2:
            return None
        name, axes = item.items
        if not isinstance(name, Constant) or not isinstance(name.value, str):
            return None
        names = _axes_of_value(axes)
        if names is None:
            return None
        found.append((name.value, names))
    return LogicalRules(tuple(found))


def _axes_of_value(value: Value) -> tuple[str, ...] | None:
    if isinstance(value, Constant):
        if value.value is None:
            return ()
        return (value.value,) if isinstance(value.value, str) else None
    if not isinstance(value, Items) or value.open:
        return None
    plain = [item.value for item in value.items if isinstance(item, Constant)]
    names = tuple(one for one in plain if isinstance(one, str))
    return names if len(names) == len(value.items) else None


def project_rules(program: Program, path: Path) -> tuple[LogicalRules, ...] | None:
    """Every list of rules that is set where a file runs, in code or in a config; None where one is not known.

    Code that takes rules from where the text does not tell means, where its file names the key, the lists that
    configuration files have under that key.
    """
    found: list[LogicalRules] = []
    taken = False
    configs: list[tuple[str, LogicalRules | None]] | None = None
    for file in program.project.files_calling(path, (*SETTERS, *_GIVEN)):
        if file is None:
            return None
        for place in _rule_settings(program, Place(file, file.tree)):
            for option in options(program.evaluator.value(place)):
                rules = logical_rules_of(option)
                if rules is None:
                    rules = _likely_rules(program, place)
                if rules is not None:
                    found.append(rules)
                    continue
                if configs is None:
                    configs = _rules_in_configurations(program.project.configurations)
                if not any(_reads_key(place, key) for key, _ in configs):
                    return None
                taken = True
    if taken and any(rules is None for _, rules in configs or ()):
        return None
    return (*found, *(rules for _, rules in configs or () if rules is not None and taken))


def _likely_rules(program: Program, place: Place) -> LogicalRules | None:
    """The rules that an expression is in all calls in sight, by a configuration file."""
    return program.answer_for_node(("likely rules", place), lambda: _assumed_rules(program, place))


def _assumed_rules(program: Program, place: Place) -> LogicalRules | None:
    seen = [logical_rules_of(view.value(place)) for _, view in program.views_on_paths(place.file, place.node)]
    seen += [] if seen else [logical_rules_of(program.assuming_view().value(place))]
    first = seen[0]
    if first is None or any(one != first for one in seen):
        return None
    return replace(first, configured=True, assumed=True)


def _rule_settings(program: Program, module: Place) -> Iterator[Place]:
    """The rules given in a file: to what sets them, or to what looks names up in them."""
    file = module.file
    for word in (*SETTERS, *_GIVEN):
        for node in file.find_mentions(word):
            call = file.parent(node)
            if not (isinstance(node, ast.Name | ast.Attribute) and isinstance(call, ast.Call)):
                continue
            at = _GIVEN.get(word, 0)
            keyword = next((one.value for one in call.keywords if one.arg == "rules"), None)
            if call.func is not node or (keyword is None and len(call.args) <= at):
                continue
            if any(isinstance(one, Api) for one in options(program.value(file, node))):
                yield Place(file, keyword if keyword is not None else call.args[at])


def _reads_key(place: Place, key: str) -> bool:
    """Return whether a file reads an entry under a key: as an attribute, in quotes, or as the end of an attribute."""
    node = place.node
    if isinstance(node, ast.Attribute) and key.endswith(node.attr):
        return True
    taking = rf"[\"']{re.escape(key)}[\"']|\.{re.escape(key)}\b(?!\()"
    return place.file.contains_text(key) and re.search(taking, place.file.source.text) is not None


def _rules_in_configurations(files: Configurations) -> list[tuple[str, LogicalRules | None]]:
    """The lists of rules in the configuration files of a project by key; None for one that cannot be read."""
    return [(entry.key, _rules_of_literal(entry.value)) for entry in files.find_entries(_KEY)]


def _rules_of_literal(value: object) -> LogicalRules | None:
    found = []
    pairs = list(value.items()) if isinstance(value, dict) else value
    for item in pairs if isinstance(pairs, list) else [None]:
        if not isinstance(item, list | tuple) or len(item) != 2 or not isinstance(item[0], str):
            return None
        axes = item[1]
        names = [] if axes is None else [axes] if isinstance(axes, str) else axes
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return None
        found.append((item[0], tuple(names)))
    return LogicalRules(tuple(found), configured=True)
