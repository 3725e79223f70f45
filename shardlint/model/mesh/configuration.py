"""What the configuration files of a project say: mesh axes, logical axis rules and the like, in YAML and TOML.

Only the entries asked for are parsed, wherever they stand in a file. Files of these kinds are among those whose change
makes every answer of the cache void (`shardlint/source/tree.py`), so an answer needs no note of them.
"""

from __future__ import annotations

import os
import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlint.source.find import ALWAYS_EXCLUDED

_MAX_BYTES = 1_000_000
_MAX_FILES = 2_000
_YAML = (".yml", ".yaml")


@dataclass(frozen=True)
class Entry:
    """One entry of a configuration file. `value` is plain data; `known` is False where it could not be read."""

    path: Path
    line: int
    key: str
    value: Any
    known: bool = True


def entries(root: Path, key: str) -> Iterator[Entry]:
    """The entries, at any depth, whose key matches a regular expression, in the configuration files below a folder."""
    asked = re.compile(key)
    for path in _files(root):
        try:
            text = path.read_text("utf-8") if path.stat().st_size <= _MAX_BYTES else ""
        except (OSError, UnicodeDecodeError):
            continue
        if asked.search(text):
            yield from (_in_yaml if path.suffix in _YAML else _in_toml)(path, text, key)


def _files(root: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ALWAYS_EXCLUDED)
        for name in sorted(files):
            if name.endswith((*_YAML, ".toml")):
                count += 1
                if count > _MAX_FILES:
                    return
                yield Path(folder, name)


def _in_yaml(path: Path, text: str, key: str) -> Iterator[Entry]:
    """Each block of a key by itself: the rest of the file may hold tags and templates that no plain reader knows."""
    lines = text.splitlines()
    begins = re.compile(rf"^([ \t]*)[\"']?({key})[\"']?[ \t]*:(?=\s|$)")
    for number, line in enumerate(lines):
        match = begins.match(line)
        if match is None:
            continue
        block = [line, *_below(lines[number + 1 :], len(match[1]))]
        known, value = _loaded(textwrap.dedent("\n".join(block)), match[2])
        yield Entry(path, number + 1, match[2], value, known)


def _below(lines: list[str], indent: int) -> Iterator[str]:
    """The lines of a block: those further in, the items of a list at the same depth, and brackets left open."""
    for line in lines:
        bare = line.lstrip()
        depth = len(line) - len(bare)
        if bare and not bare.startswith(("#", "]", "}")):
            item = depth == indent and bare.startswith(("- ", "["))
            if depth <= indent and not item:
                return
        yield line


def _loaded(block: str, key: str) -> tuple[bool, Any]:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:  # without it nothing is known of these files
        return False, None
    try:
        found = yaml.load(block, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return False, None
    return (True, found[key]) if isinstance(found, dict) and key in found else (False, None)


def _in_toml(path: Path, text: str, key: str) -> Iterator[Entry]:
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    asked = re.compile(key)
    todo: list[Any] = [found]
    for table in todo:
        for name, value in table.items():
            if asked.fullmatch(name):
                line = next((n for n, one in enumerate(text.splitlines(), 1) if name in one), 1)
                yield Entry(path, line, name, value)
            todo += [value] if isinstance(value, dict) else []
