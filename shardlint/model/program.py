"""The questions that rules ask of a project, and what answers them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import TypeVar, cast

from shardlint.config.own_names import NO_OWN_NAMES, OwnNames
from shardlint.model.evaluator.assumed_values import Assuming
from shardlint.model.evaluator.callers import Callers
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.evaluator.ways import Ways
from shardlint.model.flow import Flow
from shardlint.model.joint_files import files_run_together
from shardlint.model.mesh.contexts import Context, Contexts
from shardlint.model.needs import GROUPS, Memo
from shardlint.model.project import Project
from shardlint.model.rechecked_project import InvalidatedFacts
from shardlint.model.traced import Region, Tracing
from shardlint.model.values import Place, Value
from shardlint.source.searches import PART
from shardlint.source.text import Source
from shardlint.syntax import FileFacts
from shardlint.syntax.file_edits import join_needs
from shardlint.syntax.parts import OUTLINE

Answer = TypeVar("Answer")
Room = TypeVar("Room")
# How much may be kept parsed at once, in bytes. With half of it maxtext, jax and axlearn are parsed and evaluated again
# several times, which costs a quarter of the time and takes no less memory at its peak.
_KEPT = 800_000_000
_KEPT_OF_ALL = 1_000_000_000

__all__ = ["Program"]


class Program:
    """The questions rules ask, over the files of one project. Nothing is read before a question needs it."""

    def __init__(
        self,
        root: Path,
        overlay: dict[Path, Source] | None = None,
        own_names: OwnNames = NO_OWN_NAMES,
        project: Project | None = None,
    ) -> None:
        self.project = project or Project(root, overlay)
        self._answers: Memo[Hashable, object] = Memo(self.project.needs)
        self.own = own_names
        self.needs = self.project.needs
        self._start_answers()

    def _start_answers(self) -> None:
        self._learned: list[object] = []
        """What holds parsed trees, or was learned from them."""
        self._rooms: dict[object, object] = {}
        self.evaluator = self.register_room(Evaluator(self.project, self.own))
        self.flow = self.register_room(Flow(self.project, self.evaluator))
        self.tracing = self.register_room(Tracing(self.flow))
        self.tracing_in_sight = self.register_room(Tracing(self.flow, every=True))
        self.contexts = self.register_room(Contexts(self.evaluator, self.flow))
        self.callers = self.register_room(Callers(self.evaluator, self.flow))
        self.ways = self.register_room(Ways(self.evaluator, self.callers))
        self._of_nodes: Memo[Hashable, object] = self.register_room(Memo(self.needs))

    def register_room(self, room: Room) -> Room:
        """Take note of what holds parsed trees: it is emptied with them."""
        self._learned.append(room)
        return room

    def find_room(self, kind: Callable[[Evaluator], Room]) -> Room:
        """Return the object of a class that remembers answers about nodes, which assume nothing: one for the program.

        It is made when it is first asked for, and emptied with the parsed trees.
        """
        if kind not in self._rooms:
            self._rooms[kind] = self.register_room(kind(self.flow.evaluator))
        return cast(Room, self._rooms[kind])

    def trim_memory(self) -> None:
        """Between two files: let go of parsed trees and all that was learned from them once there are many.

        Never in the middle of a file: two parses of one file would not know each other's nodes.
        """
        if self.project.is_heavier_than(_KEPT):
            self.forget_trees()

    @staticmethod
    def trim_projects(programs: Sequence[Program]) -> None:
        """Between two projects: let go of the parsed trees of all if they take much memory together. That takes time,
        and none is saved at the end of a run.
        """
        if sum(one.project.parsed_bytes for one in programs) > _KEPT_OF_ALL:
            for one in programs:
                one.forget_trees()

    def forget_trees(self) -> None:
        """Let go of all parsed trees and all that was learned from them."""
        self._release_answers()
        self.needs.keep_only(self._answers)
        self._start_answers()

    def _release_answers(self) -> None:
        self.evaluator.break_cycles()
        # They know each other; emptied, they go at once and no collector need look for them.
        for room in self._learned:
            release = getattr(room, "release_modules", None)
            if release is not None:
                release()
            vars(room).clear()
        self.project.forget_parsed()

    def end_for_heir(self, heir: Program) -> None:
        """Let go of everything but the needs, which another has taken over: nothing will be asked any more."""
        self._answers = Memo(self.needs)
        self._release_answers()
        self._start_answers()
        if heir.needs.has_too_many:
            heir.needs.keep_only(heir._answers)

    def value(self, file: FileFacts, node: ast.AST) -> Value:
        """Return the value of an expression."""
        return self.evaluator.value(Place(file, node))

    def followed(self, value: Value) -> Value:
        """A value with parameters replaced by what all their callers give, where these are known."""
        found = self.callers.followed(value)
        return self.evaluator.assume_value(found) if isinstance(self.evaluator, Assuming) else found

    def assuming_view(self) -> Assuming:
        """A view that assumes what values most likely are, and keeps its reasons. One for each finding."""
        return Assuming(self.evaluator, self.callers)

    def views_on_paths(self, file: FileFacts, node: ast.AST) -> Iterator[tuple[Program, Assuming]]:
        """This program as it is on each way to a node that is in sight, with what is assumed there."""
        ways = self.ways.paths_to_place(Place(file, node))
        views = [Assuming(self.evaluator, self.callers, scope, way) for scope, way in ways]
        for view in views or [self.assuming_view()]:
            seen = copy(self)
            seen.evaluator = view
            yield seen, view

    def region(self, file: FileFacts, node: ast.AST) -> Region:
        """Return the tracing state of a node, with its reason."""
        return self.tracing.region_of_node(file, node)

    def region_in_sight(self, file: FileFacts, node: ast.AST) -> Region:
        """Return the tracing state of a node by the visible calls, as if there were no others."""
        return self.tracing_in_sight.region_of_node(file, node)

    def mesh_contexts(self, file: FileFacts, node: ast.AST) -> Context:
        """Which meshes are in context at a node."""
        return self.contexts.context(file, node)

    def surrounding_contexts(self, file: FileFacts, node: ast.AST) -> Context:
        """Every mesh context open at a node on any way, nested ones included."""
        return self.contexts.surrounding_contexts(file, node)

    def call_context(self, file: FileFacts, node: ast.AST) -> Context:
        """Every mesh context open where a function is called: a definition, or what `jit(f)` makes."""
        return self.contexts.contexts_of_calls(Place(file, node))

    def answer_for_node(self, question: Hashable, answer: Callable[[], Answer]) -> Answer:
        """Return the answer to a question about nodes that several rules ask. It is dropped with the parsed files."""
        return cast(Answer, self._of_nodes.get_or_make(question, answer))

    def together(self, file: FileFacts) -> Iterator[FileFacts]:
        """The file and those that run together with it by import, the nearest first."""
        yield from files_run_together(self.evaluator.linker, self.project, file)

    def once(
        self, file: FileFacts, question: Hashable, answer: Callable[[], Answer], joined: bool = False
    ) -> Answer:
        """Return the answer to a rule's question about the files that run with one (or are `joined` to it), computed
        once for all.

        The answer must hold no node of a file, and say nothing of the file itself.
        """
        return self._remember_answer((self.project.file_set_number(file.path, joined), joined, question), answer)

    def answer_for_file(self, file: FileFacts, question: Hashable, answer: Callable[[], Answer]) -> Answer:
        """Return the answer to a rule's question about one file, under the same condition: it holds no node and
        nothing of its asker.
        """

        key = file.path, question
        if key not in self._answers:
            before = self.needs.begin_answer()
            self.needs.note_need((PART, str(file.path), OUTLINE))
            try:
                made = answer()
            finally:
                needed, self.needs.now = self.needs.needs_with_given(self.needs.now), before
            # Such answers are many, and who asks for one asks for all.
            self._answers.remember_lent_answer(key, made, join_needs(needed))
        return self._remember_answer(key, answer)

    def _remember_answer(self, key: Hashable, answer: Callable[[], Answer]) -> Answer:
        return cast(Answer, self._answers.get_or_make(key, answer))

    def inherit_answers(self, before: Program, invalidated: InvalidatedFacts) -> None:
        """Take over answers that hold no node from a program before some files changed, as long as they hold here."""
        if GROUPS in invalidated.asked:  # they are remembered by which files run together
            return
        moved = {
            number for path in invalidated.moved for number, _ in self.needs.needs_by_key(path)
        }  # they may hold lines
        self._answers.inherit_answers(
            before._answers, self.needs.make_rests_on(invalidated.find_invalidated_numbers(self.needs) | moved)
        )
