"""Where in a settings file a setting stands, for messages."""

from __future__ import annotations

import re
from pathlib import Path

from shardlint.source.regular_files import CONFIGURATION_BYTES, read_text


def with_line(path: Path, key: str, message: str) -> str:
    """A message about a setting, `PATH: KEY is ...` or `PATH: KEY.NAME is ...`, with the line it stands on."""
    said = message.removeprefix(f"{path}: ")
    inner = said.removeprefix(f"{key}.").partition(" is ")[0] if said.startswith(f"{key}.") else ""
    line = _line_of_key(path, key, inner)
    return f"{path}:{line}: {said}" if line else message


def _line_of_key(path: Path, key: str, inner: str) -> int:
    """The line of a key of a table, or else of the table; 0 where none is found."""
    try:
        lines = read_text(path, CONFIGURATION_BYTES).splitlines()
    except (OSError, ValueError):
        return 0
    first = 0
    if path.name == "pyproject.toml":  # other tools have settings of the same names
        first = next(
            (number for number, line in enumerate(lines) if _key_pattern("shardlint").search(line)), 0
        )
    table = _first_line_with_key(lines, first, key)
    return (_first_line_with_key(lines, table - 1, inner) if table and inner else 0) or table


def _first_line_with_key(lines: list[str], first: int, key: str) -> int:
    named = _key_pattern(key)
    numbered = enumerate(lines[first:], first + 1)
    return next((number for number, line in numbered if named.search(line.partition("#")[0])), 0)


def _key_pattern(key: str) -> re.Pattern[str]:
    """A key, where it is given a value or names a table."""
    return re.compile(rf"""(?<![\w-])["']?{re.escape(key)}["']?\s*[]=.]""")
