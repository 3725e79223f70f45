"""The line length that a project asks its formatter for, in any of the files that state it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardlint.source.regular_files import CONFIGURATION_BYTES, read_text, read_toml

# The formatters, and how long they make lines where they are told nothing.
_FORMATTERS = {"ruff": 88, "black": 88, "pyink": 80, "yapf": 79}
_KEYS = ("line-length", "line_length", "column_limit")
# `args: ["--line-length=100"]`, `black -l 100`: of the hooks of pre-commit, each from its `id` on. A length has few
# digits, and blanks are taken once: what does not match is not tried in another way.
_HOOK = re.compile(rf"^[ \t]*+-[ \t]*+id:[ \t]*+['\"]?({'|'.join(_FORMATTERS)})(-format)?\b(?!-)", re.MULTILINE)
_NEXT_HOOK = re.compile(r"^[ \t]*+-[ \t]*+(?:id|repo):", re.MULTILINE)
_ARGUMENT = re.compile(r"(?:--line-length|-l)(?:=|['\"]?\s*+[,\n]?\s*+(?:-\s++)?['\"]?)(\d{1,6})(?!\d)")
_YAPF = (("setup.cfg", "[yapf]"), (".style.yapf", "[style]"))


def configured_length(root: Path) -> int | None:
    """The line length that a project asks its formatter for; None where it says nothing."""
    for lengths in (_lengths_in_toml, _lengths_in_hooks, _lengths_in_ini, _default_lengths):
        length = next(lengths(root), None)
        if length is not None:
            return length
    return None


def _lengths_in_toml(root: Path) -> Iterator[int]:
    for name in ("ruff.toml", ".ruff.toml", "pyproject.toml"):
        read = _read_toml_or_empty(root / name)
        tools = read.get("tool") if name == "pyproject.toml" else {"ruff": read}
        for tool in _FORMATTERS:
            options = tools.get(tool) if isinstance(tools, dict) else None
            for key in _KEYS:
                length = options.get(key) if isinstance(options, dict) else None
                if isinstance(length, int) and length > 0:
                    yield length


def _lengths_in_hooks(root: Path) -> Iterator[int]:
    for _, options in _formatting_hooks(root):
        argument = _ARGUMENT.search(options)
        if argument is not None and int(argument[1]) > 0:
            yield int(argument[1])


def _default_lengths(root: Path) -> Iterator[int]:
    """The usual length of a hook that formats and is told none; `ruff` alone is a linter."""
    for hook, _ in _formatting_hooks(root):
        if hook[1] != "ruff" or hook[2]:
            yield _FORMATTERS[hook[1]]


def _formatting_hooks(root: Path) -> Iterator[tuple[re.Match[str], str]]:
    """The hooks that format, each with the text up to the next hook."""
    text = _read_text_or_empty(root / ".pre-commit-config.yaml")
    for hook in _HOOK.finditer(text):
        following = _NEXT_HOOK.search(text, hook.end())
        yield hook, text[hook.end() : following.start() if following is not None else len(text)]


def _lengths_in_ini(root: Path) -> Iterator[int]:
    for name, section in _YAPF:
        here = ""
        for line in _read_text_or_empty(root / name).splitlines():
            here = line.strip() if line.startswith("[") else here
            key, _, value = line.replace(":", "=", 1).partition("=")
            digits = value.strip()
            if here == section and key.strip().lower() == "column_limit" and digits.isdecimal() and len(digits) < 7:
                yield int(digits)


def _read_text_or_empty(path: Path) -> str:
    """The text of a file; empty where there is none, or it cannot be read."""
    try:
        return read_text(path, CONFIGURATION_BYTES)
    except (OSError, ValueError):
        return ""


def _read_toml_or_empty(path: Path) -> dict[str, Any]:
    """The table of a file; empty where there is none, or it cannot be read."""
    try:
        return read_toml(path)
    except (OSError, ValueError):
        return {}
