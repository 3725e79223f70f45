"""Logical axis rules: which mesh axes the logical names of Flax stand for, from Python and from YAML configs."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.program.values import Api, Constant, Items, Place, Value, options
from shardlint.sources.find import ALWAYS_EXCLUDED

if TYPE_CHECKING:
    from shardlint.program import Program

SETTERS = ("logical_axis_rules", "axis_rules", "set_logical_axis_rules", "set_axis_rules")
"""What sets logical axis rules, as it is called."""
_KEY = re.compile(r"^[ \t]*(\w*logical_axis_rules):[ \t]*(?=\[)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class LogicalRules:
    """Rules in order: each a logical name and the mesh axes it stands for, none where it is left whole on purpose."""

    rules: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names that have a rule."""
        return frozenset(name for name, _ in self.rules)

    @property
    def lists_all(self) -> bool:
        """Whether names that are not sharded are listed too: then one that is missing was forgotten."""
        return any(not axes for _, axes in self.rules)


def rules_of(value: Value) -> LogicalRules | None:
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
        names = _axes(axes)
        if names is None:
            return None
        found.append((name.value, names))
    return LogicalRules(tuple(found))


def _axes(value: Value) -> tuple[str, ...] | None:
    if isinstance(value, Constant):
        if value.value is None:
            return ()
        return (value.value,) if isinstance(value.value, str) else None
    if not isinstance(value, Items) or value.open:
        return None
    plain = [item.value for item in value.items if isinstance(item, Constant)]
    names = tuple(one for one in plain if isinstance(one, str))
    return names if len(names) == len(value.items) else None


def project_rules(program: Program) -> tuple[LogicalRules, ...] | None:
    """Every list of rules that the project sets, in code or in a config; None where one is not known.

    Code that takes `config.logical_axis_rules` means the lists that YAML files have under that key.
    """
    configs = list(_configs(program.project.root))
    found: list[LogicalRules] = []
    taken = False
    for file in program.project.calling(SETTERS):
        if file is None:
            return None
        for call in _setting(program, Place(file, file.tree)):
            for option in options(program.value(file, call.args[0])):
                rules = rules_of(option)
                if rules is not None:
                    found.append(rules)
                elif _says_config(call.args[0]):
                    taken = True
                else:
                    return None
    if taken and (not configs or any(rules is None for rules in configs)):
        return None
    return (*found, *(rules for rules in configs if rules is not None and taken))


def _setting(program: Program, module: Place) -> Iterator[ast.Call]:
    file = module.file
    for word in SETTERS:
        for node in file.mentions(word):
            call = file.parent(node)
            if not (isinstance(node, ast.Name | ast.Attribute) and isinstance(call, ast.Call)):
                continue
            if call.func is not node or len(call.args) != 1:
                continue
            if any(isinstance(one, Api) for one in options(program.value(file, node))):
                yield call


def _says_config(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr.endswith("logical_axis_rules")


def _configs(root: Path) -> Iterator[LogicalRules | None]:
    """The lists of rules in the YAML files of a project; None for one that cannot be read."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in ALWAYS_EXCLUDED]
        for name in files:
            if name.endswith((".yml", ".yaml")):
                path = Path(folder, name)
                try:
                    if path.stat().st_size > _MAX_BYTES:
                        continue
                    text = path.read_text("utf-8")
                except (OSError, UnicodeDecodeError):
                    continue
                if "logical_axis_rules" in text:
                    yield from _in_yaml(text)


def _in_yaml(text: str) -> Iterator[LogicalRules | None]:
    """Rules written as a flow sequence, which is a Python literal too: `[['batch', ['data']], ...]`."""
    for match in _KEY.finditer(text):
        bare = _COMMENT.sub("", text[match.end() :])
        depth = 0
        length = len(bare)
        for index, letter in enumerate(bare):
            depth += {"[": 1, "]": -1}.get(letter, 0)
            if depth == 0:
                length = index + 1
                break
        try:
            value = ast.literal_eval(re.sub(r"\bnull\b", "None", bare[:length]))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            yield None
            continue
        yield _literal(value)


def _literal(value: object) -> LogicalRules | None:
    found = []
    for item in value if isinstance(value, list) else [None]:
        if not isinstance(item, list | tuple) or len(item) != 2 or not isinstance(item[0], str):
            return None
        axes = item[1]
        names = [] if axes is None else [axes] if isinstance(axes, str) else axes
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return None
        found.append((item[0], tuple(names)))
    return LogicalRules(tuple(found))
