"""An abstract interpreter of Python: it runs a file as Python would, on layouts in place of arrays.

Modules run from top to bottom, then each function of the file that nothing called, with unknown arguments. Calls run
the body of the function with the layouts of this call. A condition that is not known runs both branches and joins what
they leave. A loop runs over the items that are known, or once for the first turn and again with what that changed.

What breaks a contract of a library is recorded as a `Violation`. Work is counted, not timed: past its budget nothing
more is known.
"""

from __future__ import annotations

import ast
from contextlib import suppress

from shardlint.layouts.calls import Calls
from shardlint.layouts.expressions import EVALUATORS
from shardlint.layouts.layout import Layout, Mesh
from shardlint.layouts.module_frames import ModuleFrames
from shardlint.layouts.run_state import SHARED, OutOfWork
from shardlint.layouts.statements import Statements
from shardlint.layouts.uncalled import run_uncalled
from shardlint.layouts.values import (
    Container,
    Frame,
    PartitionSpec,
    Sharding,
    Unknown,
    Value,
)
from shardlint.syntax import FileFacts

# A value of one of these types shows that the run still knows something about layouts.
_PROGRESS = frozenset((Layout, Mesh, Sharding, PartitionSpec))
# A module that is imported may take so many steps.
_MODULE_WORK = 20_000


class Interpreter(Calls, Statements):
    """One run of a file of a project.

    With `readers`, the program's options have their defaults, and of the functions that nothing calls those run alone.
    """

    def run_file(self) -> None:
        """Run the file: the module with its `main`, then the functions that nothing called and that place arrays."""
        self.file.looked.note_whole_text()
        frame = self.frame = self.add_frame(Frame({"__name__": "__main__"}, None, self.file))
        with suppress(OutOfWork, RecursionError):
            self.rooted, self.binder = True, "no shard_map, pmap or vmap"
            self._run_module(frame)
            self.rooted, self.binder = False, ""
            run_uncalled(self, frame)

    def _run_module(self, frame: Frame) -> None:
        """Run the statements of the file. Names that are bound after the budget was spent are unknown."""
        left = list(reversed(self.file.tree.body))
        try:
            while left and self.run_statement(left[-1]) == "next":
                left.pop()
            self._report_matches()
        except OutOfWork:
            self.forget_position()
            self.frame = frame
            for node in (node for statement in left for node in ast.walk(statement)):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    frame.names[node.id] = Unknown("the budget was spent before this line")

    def release_all(self) -> None:
        """Forget everything, so that it goes at once: functions, the frames around them and the run know each other."""
        for frame in self.frames:
            frame.release_names()
        vars(self).clear()

    def import_module(self) -> None:
        """Run the file as a module that others import."""
        self.frame = self.add_frame(Frame({"__name__": self.file.path.stem}, None, self.file))
        with suppress(OutOfWork, RecursionError):
            self.run_block(self.file.module.body_statements)
        self.layouts.clear()

    def run_module(self, file: FileFacts) -> Frame | None:
        """The names of a module of the project, which is run for them; None for one that is being run."""
        if file is self.file:
            return None
        return self.modules.frame_of_module(file)

    def evaluate_expression(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        self.count_step()
        evaluate = EVALUATORS.get(type(node))
        found = Unknown("an expression that is not modelled") if evaluate is None else evaluate(self, node)
        if type(found) in _PROGRESS:
            self.least_work = max(self.work - self.patience, 0)
        if self._copies and isinstance(found, Container) and id(found) in self._copies:
            found = self._copies[id(found)][1]
        self.layouts[node] = found
        return found


class Modules(ModuleFrames):
    """The modules of a project, each run by an interpreter of its own to be imported."""

    def import_file(self, facts: FileFacts) -> Frame:
        """The names of a module, after it was run."""
        self._running.append(facts.path)
        try:
            run = Interpreter(self, facts)
            run.allow_work(_MODULE_WORK, without_layout=_MODULE_WORK)
            run.region = SHARED
            run.import_module()
        finally:
            self._running.remove(facts.path)
        self._made += run.frames
        return run.frame
