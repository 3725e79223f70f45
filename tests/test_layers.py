"""The folders of shardlint import from those below them only, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import shardlint

ROOT = Path(shardlint.__file__).parent
# What a folder may import from, beside itself.
BELOW = {
    "source": "",
    "config": "source",
    "syntax": "source",
    "model": "config source syntax",
    "rules_api": "config source syntax model",
    "engine": "config source syntax model rules_api",
    "output": "config source syntax model rules_api engine",
    "verify": "config source syntax model rules_api engine output",
    "rewrite": "config source syntax model rules_api engine output verify",
    "run": "config source syntax model rules_api engine output verify",
    "server": "config source syntax model rules_api engine output rewrite",
    "cli": "config source syntax model rules_api engine output rewrite verify run server",
}
# Each with its reason in docs/architecture.md.
BACK = {("source/store.py", "rules_api"), ("config/certainty.py", "engine")}


def imported(path: Path) -> Iterator[str]:
    """The folders that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = (
                [node.module or ""]
                if node.module != "shardlint"
                else [f"shardlint.{a.name}" for a in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == "shardlint" and rest:
                yield rest.partition(".")[0]


def test_folders_are_those_of_the_drawing() -> None:
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == set(BELOW)


def test_imports_go_down() -> None:
    back = {
        (path.relative_to(ROOT).as_posix(), folder)
        for path in ROOT.rglob("*.py")
        if (own := path.relative_to(ROOT).parts[0]) in BELOW
        for folder in imported(path)
        if folder in BELOW and folder != own and folder not in BELOW[own].split()
    }
    assert back == BACK
