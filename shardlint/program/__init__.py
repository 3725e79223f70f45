"""What the files say together: names, traced regions, meshes, specs, contexts and the fate of results."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TypeVar, cast

from shardlint.facts import FileFacts
from shardlint.program.callers import Callers
from shardlint.program.contexts import Context, Contexts
from shardlint.program.donation import Donations
from shardlint.program.evaluate import Evaluator
from shardlint.program.flow import Flow
from shardlint.program.lifetimes import Lifetimes
from shardlint.program.mappings import AxisMappings, Mappings
from shardlint.program.mesh_table import SharedMesh, shared_meshes
from shardlint.program.meshes import AxisTypes
from shardlint.program.modules import Modules
from shardlint.program.needs import Remembered
from shardlint.program.project import Project
from shardlint.program.traced import Region, Tracing
from shardlint.program.values import Place, Value
from shardlint.sources.text import Source

Answer = TypeVar("Answer")
# How much may be kept parsed at once, in bytes.
_KEPT = 120_000_000

__all__ = ["Program"]


class Program:
    """The questions rules ask, over the files of one project. Nothing is read before a question needs it."""

    def __init__(
        self, root: Path, overlay: dict[Path, Source] | None = None, jit_decorators: tuple[str, ...] = ()
    ) -> None:
        self.project = Project(root, overlay)
        self._answers: Remembered[Hashable, object] = Remembered(self.project.needs)
        self.jit_decorators = frozenset(jit_decorators)
        self.needs = self.project.needs
        self._meshes: Remembered[AxisTypes, tuple[SharedMesh, ...]] = Remembered(self.needs)
        self._before_weighing = 0
        self._start()

    def _start(self) -> None:
        self.evaluator = Evaluator(self.project, self.jit_decorators)
        self.flow = Flow(self.project, self.evaluator)
        self.tracing = Tracing(self.flow)
        self.contexts = Contexts(self.evaluator, self.flow)
        self.mappings = AxisMappings(self.contexts)
        self.lifetimes = Lifetimes(Donations(self.evaluator))
        self.modules = Modules(self.evaluator)
        self.callers = Callers(self.evaluator, self.flow)

    def trim(self) -> None:
        """Between two files: let go of parsed trees and all that was learned from them once there are many.

        Never in the middle of a file: two parses of one file would not know each other's nodes.
        """
        self._before_weighing -= 1
        if self._before_weighing < 0:
            self._before_weighing = (
                self.project.parsed // 8
            )  # each is weighed a few times, however many there are
            if self.project.held > _KEPT:
                self.forget()

    def read_whole(self, path: Path) -> None:
        """Begin again, with a file read whole of which a part cannot be parsed by itself (`CutWrong`)."""
        self.project.read_whole(path)
        self.forget()

    def forget(self) -> None:
        """Let go of all parsed trees and all that was learned from them."""
        # They know each other; emptied, they go at once and no collector need look for them.
        kept = ("project", "needs", "jit_decorators", "_meshes", "_answers", "_before_weighing")
        for room in [room for name, room in vars(self).items() if name not in kept]:
            vars(room).clear()
        self.project.forget()
        self.needs.renumber(self._meshes, self._answers)
        self._start()

    def value(self, file: FileFacts, node: ast.AST) -> Value:
        """What an expression is."""
        return self.evaluator.value(Place(file, node))

    def followed(self, value: Value) -> Value:
        """A value with parameters replaced by what all their callers give, where these are known."""
        return self.callers.followed(value)

    def region(self, file: FileFacts, node: ast.AST) -> Region:
        """Whether a node is traced, and why."""
        return self.tracing.region(file, node)

    def context(self, file: FileFacts, node: ast.AST) -> Context:
        """Which meshes are in context at a node."""
        return self.contexts.context(file, node)

    def around(self, file: FileFacts, node: ast.AST) -> Context:
        """Every mesh context open at a node on any way, nested ones included."""
        return self.contexts.around(file, node)

    def call_context(self, file: FileFacts, node: ast.AST) -> Context:
        """Every mesh context open where a function is called: a definition, or what `jit(f)` makes."""
        return self.contexts.of_calls(Place(file, node))

    def axis_mappings(self, file: FileFacts, node: ast.AST) -> Mappings:
        """Which of Haliax's axis mappings are in context at a node."""
        return self.mappings.at(file, node)

    def shared_meshes(self, axis_types: AxisTypes) -> tuple[SharedMesh, ...]:
        """The meshes that the project hands around, if all are made with axes of this type; else none."""
        return self._meshes.get(axis_types, lambda: shared_meshes(self, axis_types))

    def once(self, question: Hashable, answer: Callable[[], Answer]) -> Answer:
        """What a rule's question to the whole project comes to; asked once. The answer must hold no node of a file."""
        return cast(Answer, self._answers.get(question, answer))
