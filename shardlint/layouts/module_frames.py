"""The modules of a project that were run to be imported."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

from shardlint.layouts.function_table import FunctionTable
from shardlint.layouts.values import (
    ClassValue,
    Frame,
    FunctionValue,
    Lazy,
    Value,
)
from shardlint.model.needs import Memo
from shardlint.model.project import Project
from shardlint.syntax import FileFacts


class ModuleFrames(ABC):
    """The modules of a project that were run to be imported: each once, and what it made is not changed again."""

    def __init__(
        self, project: Project, libraries: FunctionTable, releases: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.project = project
        self.libraries = libraries
        self.releases = releases
        self._frames: Memo[Path, Frame] = Memo(project.needs)
        self._imported: Memo[Lazy, Value] = Memo(project.needs)
        self._running: list[Path] = []
        self._circular: set[Path] = set()
        self._generators: dict[ast.AST, bool] = {}
        self._fields: dict[ast.ClassDef, tuple[str, ...]] = {}
        self._made: list[Frame] = []

    def is_generator(self, function: FunctionValue) -> bool:
        """Return whether a function yields."""
        node = function.node
        if isinstance(node, ast.Lambda):
            return False
        if node not in self._generators:
            file = function.frame.file
            self._generators[node] = "yield" in file.source_text(node) and any(
                isinstance(one, ast.Yield | ast.YieldFrom) for one in file.walk_scope(file.scope(node)).returns
            )
        return self._generators[node]

    def field_names(self, made_of: ClassValue) -> tuple[str, ...]:
        """The fields of a class and its bases, in the order in which a dataclass takes them."""
        if made_of.node not in self._fields:
            found = [name for one in reversed(made_of.ancestor_classes) for name in _field_names(one.node)]
            self._fields[made_of.node] = tuple(dict.fromkeys(found))
        return self._fields[made_of.node]

    def make_lazy(self, load: Callable[[], Value]) -> Lazy:
        """Return the value bound by an import, which is read on first use."""
        return Lazy(load, self._imported)

    def frame_of_module(self, facts: FileFacts) -> Frame | None:
        """The names of a module. None for one that is being run: it imports itself through others."""
        path = facts.path
        if path in self._running:
            self._circular.update(self._running[self._running.index(path) + 1 :])
            return None
        # What a circle of imports leaves depends on where it was entered: it is made anew each time.
        made = self._frames.make_answer if path in self._circular else self._frames.get_or_make
        return made(path, lambda: self.import_file(facts))

    def release_modules(self) -> None:
        """Forget all modules, so that their files go at once: functions and the frames around them know each other."""
        for frame in self._made:
            frame.release_names()
        vars(self._imported).clear()
        vars(self).clear()

    @abstractmethod
    def import_file(self, facts: FileFacts) -> Frame:
        """The names of a module, after it was run; its frames are added to `_made`."""


def _field_names(node: ast.ClassDef) -> list[str]:
    return [
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and "ClassVar" not in ast.unparse(one.annotation)
    ]
