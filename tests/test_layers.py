"""The folders of shardlint import from those below them only, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import shardlint_rules

import shardlint

ROOT = Path(shardlint.__file__).parent
# What a folder may import from, beside itself.
BELOW = {
    "source": "",
    "config": "source",
    "syntax": "source",
    "model": "config source syntax",
    "layouts": "config source syntax model libraries",
    "libraries": "config source syntax model layouts",
    "rules_api": "config source syntax model layouts",
    "engine": "config source syntax model layouts rules_api",
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


RULES = Path(shardlint_rules.__file__).parent


def test_what_serves_one_rule_alone_has_a_leading_underscore() -> None:
    """A helper module says by its name who may use it: `_name` one rule, `name` every rule."""
    rules = {where.partition(":")[0] for where in shardlint_rules.RULES.values()}
    importers = _importers()

    def owners(module: str) -> set[str]:
        """The rules that import a module, through other helpers too."""
        found: set[str] = set()
        todo, seen = [module], {module}
        while todo:
            for importer in importers.get(todo.pop(), ()):
                if importer in rules:
                    found.add(importer)
                elif importer not in seen:
                    seen.add(importer)
                    todo.append(importer)
        return found

    helpers = [name for name in importers if name not in rules]
    assert len(helpers) > 50
    private = {name for name in helpers if "._" in name and owners(name)}
    alone = {name for name in helpers if len(owners(name)) == 1}
    assert alone == private


def _importers() -> dict[str, set[str]]:
    """The modules of the rule pack, packages apart, each with those that import it."""
    paths = {
        ".".join(path.relative_to(RULES.parent).with_suffix("").parts): path
        for path in RULES.rglob("*.py")
        if path.name != "__init__.py"
    }
    found: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for used in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    if used in found:
                        found[used].add(name)
    return found
