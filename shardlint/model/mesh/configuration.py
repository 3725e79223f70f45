"""Settings in the configuration files of a project: mesh axes, logical axis rules and the like, in YAML and TOML.

They are those that a survey of the project comes by (`shardlint/source/find.py`). A change of any of these makes every
answer of the cache void (`shardlint/source/tree.py`), so an answer needs no note of them.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from shardlint.source.lazy import dataclass
from shardlint.source.regular_files import CONFIGURATION_BYTES, parse_toml, read_regular
from shardlint.source.tree import Tree

_MAX_FILES = 2_000
_MAX_WHOLE = 100_000  # bytes of a file that is read as a whole
# Blocks of a key in blocks of the same key are parsed again: together so many times the size of their file.
_MAX_NESTED = 8
# A reader of YAML runs out of stack, and merges of merges grow without end.
_MAX_DEPTH = 50
_MAX_MERGED = 30
_YAML = (".yml", ".yaml")
# What a reader of YAML raises for values that only look well formed, such as `!!int ""` or a month of 13.
_ODD = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Entry:
    """One entry of a configuration file. `value` is plain data; `known` is False where it could not be read."""

    path: Path
    line: int
    key: str
    value: Any
    known: bool = True


class Configurations:
    """The configuration files of a project. What they hold as a whole is read once."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        self.files = files
        self._data: dict[Path, object] = {}
        self._entries: dict[str, tuple[Entry, ...]] = {}

    def find_entries(self, key: str) -> tuple[Entry, ...]:
        """The entries, at any depth, whose key matches a regular expression; only these are parsed."""
        if key not in self._entries:
            self._entries[key] = tuple(self._find_entries(key))
        return self._entries[key]

    def _find_entries(self, key: str) -> Iterator[Entry]:
        asked = re.compile(key)
        for path in self.files:
            text = read_configuration(path)
            if asked.search(text):
                yield from (_entries_in_yaml if path.suffix in _YAML else _entries_in_toml)(path, text, key)

    def load_data(self, path: Path) -> object:
        """Return the contents of a file as plain data; None if they cannot be read as such."""
        if path not in self._data:
            text = read_configuration(path, _MAX_WHOLE)
            self._data[path] = load_plain_yaml(text) if path.suffix in _YAML else _load_plain_toml(text)
        return self._data[path]


def configuration_files(root: Path, folders: Sequence[str], tree: Tree) -> tuple[Path, ...]:
    """The configuration files in the folders of a survey of a project, of which the first is its root."""
    found: list[Path] = []
    for path in folders:
        folder = tree.folder_contents(path)
        names = folder.telling if folder is not None else ()
        inside = root / Path(path).relative_to(folders[0])
        found += [inside / name for name in names if name.endswith((*_YAML, ".toml"))]
        if len(found) > _MAX_FILES:
            break
    return tuple(found[:_MAX_FILES])


def read_configuration(path: Path, limit: int = CONFIGURATION_BYTES) -> str:
    """The text of a configuration file; empty where it is larger, or cannot be read."""
    try:
        return read_regular(path, limit).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _entries_in_yaml(path: Path, text: str, key: str) -> Iterator[Entry]:
    """Each block of a key by itself: the rest of the file may hold tags and templates that no plain reader knows."""
    lines = text.splitlines()
    room = _MAX_NESTED * len(text)
    begins = re.compile(rf"^([ \t]*)[\"']?({key})[\"']?[ \t]*:(?=\s|$)")
    for number, line in enumerate(lines):
        match = begins.match(line)
        if match is None:
            continue
        block = [line]
        for below in _block_lines(itertools.islice(lines, number + 1, None), len(match[1])):
            room -= len(below)
            if room < 0:
                break
            block.append(below)
        known, value = (False, None) if room < 0 else _load_key(textwrap.dedent("\n".join(block)), match[2])
        yield Entry(path, number + 1, match[2], value, known)


def _block_lines(lines: Iterable[str], indent: int) -> Iterator[str]:
    """The lines of a block: those further in, the items of a list at the same depth, and brackets left open."""
    for line in lines:
        bare = line.lstrip()
        depth = len(line) - len(bare)
        if bare and not bare.startswith(("#", "]", "}")):
            item = depth == indent and bare.startswith(("- ", "["))
            if depth <= indent and not item:
                return
        yield line


def _load_key(block: str, key: str) -> tuple[bool, Any]:
    found = load_plain_yaml(block)
    return (True, found[key]) if isinstance(found, dict) and key in found else (False, None)


def load_plain_yaml(text: str) -> Any:
    """Return the data of a text in YAML; None if it is not plain data."""
    import yaml  # type: ignore[import-untyped]

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader) if _is_shallow(yaml.parse(text, Loader=loader)) else None
    except (yaml.YAMLError, *_ODD):
        return None


def _is_shallow(events: Iterator[Any]) -> bool:
    """Return whether a text in YAML can be built with little stack and in little time."""
    depth = aliases = 0
    merges = False
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        aliases += kind == "AliasEvent"
        merges = merges or (kind == "ScalarEvent" and event.value == "<<")
        if depth > _MAX_DEPTH or (merges and aliases > _MAX_MERGED):
            return False
    return True


def _load_plain_toml(text: str) -> Any:
    try:
        return parse_toml(text)
    except ValueError:
        return None


def _entries_in_toml(path: Path, text: str, key: str) -> Iterator[Entry]:
    asked = re.compile(key)
    todo: list[Any] = [_load_plain_toml(text) or {}]
    for table in todo:
        for name, value in table.items():
            if asked.fullmatch(name):
                line = next((n for n, one in enumerate(text.splitlines(), 1) if name in one), 1)
                yield Entry(path, line, name, value)
            todo += [value] if isinstance(value, dict) else []
