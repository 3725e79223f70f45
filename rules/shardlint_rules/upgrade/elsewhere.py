"""Test for names of a file that other files use."""

from __future__ import annotations

import ast

from shardlint.model.values import ModuleValue, Place
from shardlint.rules_api.site import Site


def is_used_elsewhere(site: Site, name: str) -> bool:
    """Return whether another file of the project may use a name of this file."""
    evaluator = site.program.evaluator
    for file in site.program.project.files_importing(site.file.path, name, every=True):
        if file is None:
            return True
        for node in file.find_mentions(name):
            statement = file.parent(node)
            if isinstance(node, ast.alias) and isinstance(statement, ast.ImportFrom):
                module = evaluator.imported_module(file, statement)
            elif isinstance(node, ast.Attribute):
                module = evaluator.value(Place(file, node.value))
            else:
                continue
            if isinstance(module, ModuleValue) and module.file.path == site.file.path:
                return True
    return False
