"""How long a project asks its formatter to make lines, wherever it says so."""

from __future__ import annotations

import configparser
import contextlib
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# The formatters, and how long they make lines where they are told nothing.
_FORMATTERS = {"ruff": 88, "black": 88, "pyink": 80, "yapf": 79}
_KEYS = ("line-length", "line_length", "column_limit")
# `args: ["--line-length=100"]`, `black -l 100`: of the hooks of pre-commit, each from its `id` on.
_HOOK = re.compile(rf"^\s*-\s*id:\s*['\"]?({'|'.join(_FORMATTERS)})(-format)?\b(?!-)", re.MULTILINE)
_NEXT_HOOK = re.compile(r"^\s*-\s*(?:id|repo):", re.MULTILINE)
_ARGUMENT = re.compile(r"(?:--line-length|-l)(?:['\"]?\s*[,\n]?\s*(?:-\s+)?['\"]?|=)(\d+)")
_YAPF = (("setup.cfg", "yapf"), (".style.yapf", "style"))


def configured_length(root: Path) -> int | None:
    """The line length that a project asks its formatter for; None where it says nothing."""
    for found in (_in_toml, _in_hooks, _in_ini, _by_default):
        length = next(found(root), None)
        if length is not None:
            return length
    return None


def _in_toml(root: Path) -> Iterator[int]:
    for name in ("ruff.toml", ".ruff.toml", "pyproject.toml"):
        read = _read(root / name, tomllib.loads) or {}
        tools = read.get("tool") if name == "pyproject.toml" else {"ruff": read}
        for tool in _FORMATTERS:
            options = tools.get(tool) if isinstance(tools, dict) else None
            for key in _KEYS:
                found = options.get(key) if isinstance(options, dict) else None
                if isinstance(found, int) and found > 0:
                    yield found


def _in_hooks(root: Path) -> Iterator[int]:
    text = _read(root / ".pre-commit-config.yaml", str) or ""
    for hook in _HOOK.finditer(text):
        following = _NEXT_HOOK.search(text, hook.end())
        said = _ARGUMENT.search(text, hook.end(), following.start() if following is not None else len(text))
        if said is not None and int(said[1]) > 0:
            yield int(said[1])


def _by_default(root: Path) -> Iterator[int]:
    """Of a hook that formats and is told no length; `ruff` alone is a linter."""
    for hook in _HOOK.finditer(_read(root / ".pre-commit-config.yaml", str) or ""):
        if hook[1] != "ruff" or hook[2]:
            yield _FORMATTERS[hook[1]]


def _in_ini(root: Path) -> Iterator[int]:
    for name, section in _YAPF:
        read = _read(root / name, _ini)
        said = read.get(section, "column_limit", fallback="") if read is not None else ""
        if said.strip().isdecimal() and int(said) > 0:
            yield int(said)


def _ini(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.read_string(text)
    return found


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    """A settings file; None where there is none, or it is broken."""
    with contextlib.suppress(OSError, ValueError, configparser.Error):
        return parse(path.read_text("utf-8"))
    return None
