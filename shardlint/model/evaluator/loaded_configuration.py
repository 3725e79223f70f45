"""Values that a program reads from a configuration file of the project: `yaml.safe_load(open("model.yaml"))`.

A change of such a file makes every answer of the cache void (`shardlint/model/mesh/configuration.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.model.values import (
    LARGEST,
    Api,
    Assumed,
    CallArguments,
    CallResult,
    Constant,
    Environment,
    Items,
    Place,
    Table,
    Unknown,
    Value,
    accept_assumed,
    mark_assumed,
)
from shardlint.syntax import last_name
from shardlint.syntax.bindings import lookup_bindings

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

LOADERS = ("yaml.safe_load", "yaml.full_load", "yaml.load", "tomllib.load", "tomllib.loads", "tomli.load", "toml.load")
_READS = ("read", "read_text", "read_bytes", "open", "resolve", "absolute", "expanduser")
_SAME = ("builtins.open", "builtins.str", "pathlib.Path", "os.path.abspath", "os.path.realpath", "os.path.expanduser")
_FOLDERS = ("os.path.dirname", *_SAME)
_HERE = ("os.getcwd", "pathlib.Path.cwd")
# Settings of tools, which no program reads.
_OF_TOOLS = (
    *("pyproject.toml", "mkdocs.yml", "docker-compose.yml", "docker-compose.yaml"),
    *("environment.yml", "ruff.toml"),
)
_STEPS = 12
_MOST = 5_000
_DEPTH = 40


def loaded_value(evaluator: Evaluator, by: str, call: CallArguments) -> Value | None:
    """Return the result of a loader of this name, if it reads one file of the project. Another file may be read at run
    time.
    """
    first = call.positional[0] if call.positional else None
    named = _resolve_read_path(evaluator, first, call.environment, _STEPS) if first is not None else None
    text = accept_assumed(named) if named is not None else None
    if first is None:
        return None
    if named is None or not isinstance(text, Constant):
        return (
            _only_configuration(evaluator, by)
            if _is_path_given(evaluator, first, call.environment, _STEPS)
            else None
        )
    path = _find_meant_file(evaluator, call.place.file.path, text.value) if isinstance(text, Constant) else None
    data = evaluator.project.configurations.load_data(path) if path is not None else None
    if path is None or not isinstance(data, dict):
        return None
    evaluator.rests_on_call()
    return mark_assumed(_value_of_data(data, f"`{path.name}` says so", count(), 0), named)


def _is_path_given(evaluator: Evaluator, place: Place, env: Environment | None, steps: int) -> bool:
    """Return whether a path is an argument of the function that reads it, or of the program's command line."""
    node, file = place.node, place.file
    if steps == 0:
        return False
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in _READS:
            return _is_path_given(evaluator, Place(file, base), env, steps - 1)
        case ast.Call(args=[inner, *_]):
            callee = evaluator.value(Place(file, node.func), env)
            same = isinstance(callee, Api) and callee.name in _SAME
            return same and _is_path_given(evaluator, Place(file, inner), env, steps - 1)
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="parse_args"))):
            return True
        case ast.Attribute(value=ast.Name() as base):
            bindings, _ = lookup_bindings(file, base, base.id)
            given = [one.value for one in bindings]
            return bool(given) and all(
                isinstance(one, ast.Call) and last_name(one.func) == "parse_args" for one in given
            )
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="sys"), attr="argv")):
            return True
        case ast.Name():
            bindings, _ = lookup_bindings(file, node, node.id)
            bound = bindings[0] if len(bindings) == 1 else None
            if bound is None or bound.index:
                return False
            if bound.kind == "param":
                return bound.value is None or isinstance(bound.value, ast.Constant)
            if bound.value is not None and bound.kind in ("assign", "with"):
                return _is_path_given(evaluator, Place(file, bound.value), env, steps - 1)
    return False


def _only_configuration(evaluator: Evaluator, by: str) -> Value | None:
    """Return the contents of the project's only configuration file, if the program is told which file to read."""
    suffixes = (".yml", ".yaml") if by.startswith("yaml") else (".toml",)
    root = evaluator.project.root
    known = [
        path
        for path in evaluator.project.configurations.files
        if path.suffix in suffixes
        and path.name not in _OF_TOOLS
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    data = evaluator.project.configurations.load_data(known[0]) if len(known) == 1 else None
    if not isinstance(data, dict):
        return None
    evaluator.rests_on_call()
    why = f"`{known[0].name}` is the only such file of the project"
    return Assumed(_value_of_data(data, f"`{known[0].name}` says so", count(), 0), why)


def _resolve_read_path(evaluator: Evaluator, place: Place, env: Environment | None, steps: int) -> Value | None:
    """The path that is read, from a folder of the project on."""
    node, file = place.node, place.file
    if steps == 0:
        return None
    match node:
        case ast.BinOp(left=folder, op=ast.Div(), right=right):
            given = [Place(file, folder), Place(file, right)]
            return _join_path(evaluator, given, env, steps - 1)
        case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in _READS:
            return _resolve_read_path(evaluator, Place(file, base), env, steps - 1)
        case ast.Name():
            bindings, _ = lookup_bindings(file, node, node.id)
            bound = bindings[0] if len(bindings) == 1 else None
            if bound is not None and bound.value is not None and bound.kind in ("assign", "with") and not bound.index:
                return _resolve_read_path(evaluator, Place(file, bound.value), env, steps - 1)
    value = evaluator.value(place, env)
    match accept_assumed(value):
        case Constant(value=str()):
            return value
        case CallResult(by=Api(name=name), call=CallArguments() as call) if call.positional:
            if name == "builtins.open" or (name in _SAME and len(call.positional) == 1):
                return _resolve_read_path(evaluator, call.positional[0], call.environment, steps - 1)
            if name in ("os.path.join", "pathlib.Path") and not call.open_positional:
                return _join_path(evaluator, list(call.positional), call.environment, steps - 1)
    return None


def _join_path(evaluator: Evaluator, places: list[Place], env: Environment | None, steps: int) -> Value | None:
    """A path in a folder: one that is written out, or one that is found from where the code is."""
    last = _resolve_read_path(evaluator, places[-1], env, steps)
    text = accept_assumed(last) if last is not None else None
    if last is None or not isinstance(text, Constant) or not isinstance(text.value, str):
        return None
    front = "."
    for folder in places[:-1]:
        if _is_code_folder(evaluator, folder, env, steps):
            continue
        found = _resolve_read_path(evaluator, folder, env, steps)
        part = accept_assumed(found) if found is not None else None
        if found is None or not isinstance(part, Constant) or not isinstance(part.value, str):
            return None
        front, last = f"{front}/{part.value}", mark_assumed(last, found)
    return mark_assumed(Constant(f"{front}/{text.value}"), last)


def _is_code_folder(evaluator: Evaluator, place: Place, env: Environment | None, steps: int) -> bool:
    """Return whether a folder is given by `__file__`, or is the working folder."""
    node, file = place.node, place.file
    if steps == 0:
        return False
    match node:
        case ast.Name(id="__file__"):
            return True
        case ast.Subscript(value=base) | ast.Attribute(value=base, attr="parent" | "parents"):
            return _is_code_folder(evaluator, Place(file, base), env, steps - 1)
        case ast.Call(func=ast.Attribute(value=base, attr=attr), args=[]) if attr in _READS:
            return _is_code_folder(evaluator, Place(file, base), env, steps - 1)
        case ast.Name():
            bindings, _ = lookup_bindings(file, node, node.id)
            bound = bindings[0] if len(bindings) == 1 else None
            if bound is not None and bound.value is not None and bound.kind == "assign":
                return _is_code_folder(evaluator, Place(file, bound.value), env, steps - 1)
            return False
        case ast.Call(args=given):
            callee = evaluator.value(Place(file, node.func), env)
            name = callee.name if isinstance(callee, Api) else ""
            return name in _HERE or (
                name in _FOLDERS
                and len(given) == 1
                and _is_code_folder(evaluator, Place(file, given[0]), env, steps - 1)
            )
    return False


def _find_meant_file(evaluator: Evaluator, importer: Path, text: object) -> Path | None:
    """The one file of the project that a path can mean: at its root, beside the code, or alone in ending so."""
    root = evaluator.project.root
    if not isinstance(text, str) or Path(text).is_absolute():
        return None
    parts = tuple(part for part in Path(text).parts if part not in (".", ".."))
    if not parts:
        return None
    ending = [path for path in evaluator.project.configurations.files if path.parts[-len(parts) :] == parts]
    for folder in (root, importer.parent, importer.parent.parent):
        if folder.joinpath(*parts) in ending:
            return folder.joinpath(*parts)
    return ending[0] if len(ending) == 1 else None


def _value_of_data(data: object, why: str, seen: Iterator[int], depth: int) -> Value:
    """Plain data as a value; each leaf is only assumed, as another file may be given.

    A file whose parts refer to each other, or to themselves, may hold more than it is long.
    """
    if depth > _DEPTH or next(seen) > _MOST:
        return Unknown("a large file")
    match data:
        case dict():
            return Table(tuple((key, _value_of_data(one, why, seen, depth + 1)) for key, one in data.items()))
        case list():
            return Items("list", tuple(_value_of_data(one, why, seen, depth + 1) for one in data))
        case bool() | str() | float() | None:
            return Assumed(Constant(data), why)
        case int() if abs(data) < LARGEST:
            return Assumed(Constant(data), why)
    return Unknown("data that is not plain")
