"""Lists that a project gives under a name: fields and keys of configurations, in Python and in YAML.

`config.activation_axes` seldom leads to where it is set: it is read from a file. What the files hold under that name
tells what it most likely is.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.model.mesh.configuration import read_configuration
from shardlint.source.find import ALWAYS_EXCLUDED
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model import Program

_MAX_FILES = 400
# No bracket inside, as in a list of names: one that is left open ends where the next begins.
_DISPLAY = r"(\[[^\[\]#]*\]|\([^()#]*\))"
_ITEM = compile_lazily(r"[ \t]*+-[ \t]++[\"']?(\w+|~)[\"']?[ \t]*+(?:#.*)?(?:\n|\Z)")
_WORD = compile_lazily(r"[A-Za-z_]\w*")
_CONSTANTS = ("None", "null", "True", "true", "False", "false")


@dataclass(frozen=True)
class NameList:
    """A list or tuple of texts and None under a name, and where it stands: a file's name and a line."""

    items: tuple[str | None, ...]
    file: str
    line: int


def find_name_lists(program: Program, file: FileFacts, name: str) -> tuple[NameList, ...]:
    """Return the lists bound to a name in the program of a file, in code first, then in YAML files of the project."""
    return program.once(
        file,
        ("listed", name),
        lambda: (*_lists_in_code(program, file.path, name), *_lists_in_configs(program.project.root, name)),
    )


def _lists_in_code(program: Program, path: Path, name: str) -> Iterator[NameList]:
    """`config.name = [...]`, `name: list[str] = (...)`, `name=[...]`, `"name": [...]`."""
    word = re.escape(name)
    pattern = rf"(?:){word}(?<!\w{word})[\"']?\]?\s*(?::[^=\n]{{0,200}}=|[:=])\s*{_DISPLAY}"
    for file in program.project.files_holding(path, (pattern,)):
        if file is None:
            return
        text = file.source.text
        for match in re.finditer(pattern, text):
            items = _literal_names(match[1])
            if items is not None:
                yield NameList(items, file.path.name, text.count("\n", 0, match.start()) + 1)


def _lists_in_configs(root: Path, name: str) -> Iterator[NameList]:
    for path in _configuration_paths(root):
        text = read_configuration(path)
        line, counted = 1, 0
        for match in re.finditer(
            rf"^([ \t]*){re.escape(name)}:[ \t]*(?:{_DISPLAY}|(?:#[^\n]*)?\n)", text, re.MULTILINE
        ):
            items = (
                _literal_names(_as_python_literal(match[2]))
                if match[2]
                else _block_sequence_items(text, match.end())
            )
            line += text.count("\n", counted, match.start())
            counted = match.start()
            if items is not None:
                yield NameList(items, path.name, line)


def _configuration_paths(root: Path) -> Iterator[Path]:
    found = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ALWAYS_EXCLUDED)
        for name in sorted(files):
            if name.endswith((".yml", ".yaml")):
                yield Path(folder, name)
                found += 1
                if found >= _MAX_FILES:
                    return


def _as_python_literal(text: str) -> str:
    """A flow sequence of YAML as Python writes it."""
    bare = _WORD.sub(
        lambda word: word[0] if word[0] in _CONSTANTS else f'"{word[0]}"', re.sub(r"[\"']", "", text)
    )
    return re.sub(r"\b(null|~)\b", "None", bare)


def _block_sequence_items(text: str, at: int) -> tuple[str | None, ...] | None:
    """The items of a block sequence that begins at a character: `- data`, a line each."""
    items: list[str | None] = []
    while (match := _ITEM.match(text, at)) is not None and match.end() > at:
        items.append(None if match[1] in ("null", "~") else match[1])
        at = match.end()
    return tuple(items) or None


def _literal_names(text: str) -> tuple[str | None, ...] | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, list | tuple) or not all(one is None or isinstance(one, str) for one in value):
        return None
    return tuple(value)
