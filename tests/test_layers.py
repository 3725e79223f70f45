"""The folders of shardlint import from those below them only, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
from collections import Counter
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
    "layouts": "config source syntax model",
    "libraries": "config source syntax model layouts",
    "facts": "config source syntax model layouts libraries",
    "rules_api": "config source syntax model layouts facts",
    "engine": "config source syntax model layouts facts rules_api",
    "output": "config source syntax model rules_api engine",
    "verify": "config source syntax model rules_api engine output",
    "rewrite": "config source syntax model rules_api engine output verify",
    "run": "config source syntax model rules_api engine output verify",
    "server": "config source syntax model rules_api engine output rewrite",
    "cli": "config source syntax model rules_api engine output rewrite verify run server",
}
# Circles of imports that are left, types included: how many modules each folder has in them.
CIRCLES = {"model": 14, "layouts": 5, "rules_api": 4, "libraries": 2}

# Rules ask `Site` and facts. How many modules of the pack still import each module of the model, `values` apart: answers
# are made of these. The numbers may only shrink.
MODEL_IN_RULES = {
    "model.signatures": 37,
    "model.mesh.meshes": 22,
    "model": 19,
    "model.api": 12,
    "model.mesh.contexts": 10,
    "model.evaluator.annotations": 7,
    "model.evaluator.trees": 7,
    "model.shapes": 6,
    "model.evaluator.evaluate": 4,
    "model.function_uses": 3,
    "model.evaluator.assumed_values": 2,
    "model.evaluator.mutations": 2,
    "model.passed_functions": 2,
    "model.deciding_tests": 1,
    "model.evaluator.callers": 1,
    "model.evaluator.sequence_parts": 1,
    "model.traced": 1,
}


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
    assert back == set()


def test_no_circle_leaves_its_folder() -> None:
    """Imports of types count. Folders without circles stay without."""
    graph: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        graph[name] = set(_modules(path)) - {name}
    circles = _circles({name: others & graph.keys() for name, others in graph.items()})
    folders = [{name.split(".")[1] for name in circle} for circle in circles]
    assert all(len(one) == 1 for one in folders), circles
    assert Counter(name.split(".")[1] for circle in circles for name in circle) == CIRCLES


def _modules(path: Path) -> Iterator[str]:
    """The modules that a file names in imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from [one for one in members if _is_module(one)] or [node.module]


def _is_module(dotted: str) -> bool:
    path = ROOT.parent.joinpath(*dotted.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other."""
    reached = {name: _reached(graph, name) for name in graph}
    found = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return [set(one) for one in found if one]


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        new = graph[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


RULES = Path(shardlint_rules.__file__).parent


def test_no_family_imports_another() -> None:
    """What two families share is a fact, or stands in the one that alone uses it."""
    across = {
        (name, importer)
        for name, importers in _importers().items()
        for importer in importers
        if name.split(".")[1] != importer.split(".")[1]
    }
    assert across == set()


def test_rules_import_less_of_the_model() -> None:
    """What rules need of the model and the model does not need itself is a fact."""
    model = "shardlint.model"
    found = Counter(
        name.removeprefix("shardlint.")
        for path in RULES.rglob("*.py")
        for name in set(_modules(path))
        if name == model or name.startswith(f"{model}.")
    )
    del found["model.values"]
    assert found == MODEL_IN_RULES


def test_what_only_rules_and_facts_ask_is_no_part_of_the_model() -> None:
    users: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        for used in _modules(path):
            users.setdefault(used, set()).add(name)
    alone = {name for name in users if name.startswith("shardlint.model.")}
    while used_by_others := {
        name for name in alone if any(not one.startswith("shardlint.facts.") for one in users[name] - alone)
    }:
        alone -= used_by_others
    assert alone == set()


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
