"""Does code move arrays between memories, of the host and of the devices?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import ModuleValue, Value
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts

WORDS = ("memory_kind", "pinned_host", "memory.Space", "TransferToMemoryKind", "Space.")
"""What code says that moves arrays between memories, which is what device_put in jit is for."""
# The project has none of these words: nothing need be followed.
_SEARCHED = ("memory_kind", "with_memory_kind", "pinned_host", "Space", "TransferToMemoryKind")


def spoken_of(site: Site) -> bool:
    """Whether memories are spoken of where an array at the site may have been placed.

    That is in its own file, in those on the way to it, in those that call the traced function, and in the modules
    that one of these imports.
    """
    if any(map(site.file.says, WORDS)):
        return True
    if not any(map(site.anywhere, _SEARCHED)):
        return False
    files = list(dict.fromkeys(_on_the_way(site)))
    near = (*files, *(module for file in files for module in _imported(site, file)))
    return any(file.says(word) for file in near for word in WORDS)


def _on_the_way(site: Site) -> Iterator[FileFacts]:
    for step in site.region.steps:
        yield step.place.file
    if site.region.steps:
        place = site.region.steps[-1].place
        parent = place.file.parent(place.node)
        decorates = isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef)
        flow = site.program.flow
        ends = flow.ends(place.file, parent) if decorates and parent is not None else flow.calls(place)
        for end in ends.found:
            yield end.place.file


def _imported(site: Site, file: FileFacts) -> Iterator[FileFacts]:
    evaluator = site.program.evaluator
    for binding in file.imports:
        statement = file.parent(binding.node)
        found: list[Value] = [evaluator.binding(file, binding)]
        if isinstance(statement, ast.ImportFrom):
            found.append(evaluator.imported(file, statement))
        yield from (value.file for value in found if isinstance(value, ModuleValue))
