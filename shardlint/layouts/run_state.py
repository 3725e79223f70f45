"""State of one interpretation of a file: its frames, its objects and its violations."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Literal, TypeVar

from shardlint.layouts.body_events import BodyEvents, Doubt
from shardlint.layouts.layout import Layout, Mesh, Size
from shardlint.layouts.module_frames import ModuleFrames
from shardlint.layouts.values import (
    MISSING,
    Container,
    Frame,
    FunctionValue,
    Instance,
    Transformed,
    Value,
    forget_objects,
    function_of,
    join_values,
)
from shardlint.layouts.violation import Violation
from shardlint.model.values import Place
from shardlint.syntax import FileFacts

ContainerType = TypeVar("ContainerType", bound=Container)
_WORK = 15_000
_PATIENCE = 2_500
"""How many steps that tell nothing of layouts end a run: it reads all from a configuration that nobody knows."""
SHARED = object()
"""The region of what importing a module makes."""
Flow = Literal["next", "leave", "break", "continue"]
"""How a block ends: `leave` is a return or a raise."""


class OutOfWork(Exception):
    """The budget is spent."""


class RunState(ABC):
    """State of one interpretation of a file. Subclasses add the execution of statements and calls."""

    def __init__(self, modules: ModuleFrames, file: FileFacts, readers: Collection[ast.AST] | None = None) -> None:
        self.modules = modules
        self.project = modules.project
        self.libraries = modules.libraries
        self.releases = modules.releases
        self.file = file
        self.readers = readers
        self.option_readers: set[ast.AST] = set()
        """What reads an option with a default: the module, or functions that nothing calls."""
        self.flags: dict[str, Value] = {}
        """The flags of absl that the file defines, by their names in the library."""
        self.violations: dict[tuple[str, str, int, int], Violation] = {}
        self.layouts: dict[ast.AST, Value] = {}
        """What the expressions of the file came to, the last time they ran."""
        self.allow_work(_WORK)
        self.frames: list[Frame] = []
        """All frames that were made."""
        self.calls: list[Place] = []
        self._active: list[ast.AST] = []
        self.frame: Frame
        self.traced = 0
        """How many jits, scans and the like are around."""
        self.mesh: Mesh | None = None
        """The mesh in context; `mesh_known` is false where it may be another one."""
        self.mesh_known = True
        self.legacy: Mesh | None = None
        """The mesh of `with mesh:`, where no other one is in context."""
        self.entered: list[Mesh] = []
        """The meshes that were in context so far."""
        self.contexts: dict[str, Value] = {}
        """What functions of libraries set for what they run, by names of theirs. It is replaced, not changed."""
        self.arguments = 0
        """How many arrays were given to jits: the numbers of `Layout.sources`."""
        self.doubts = 0
        """How often something was called of which nothing is known, or a way was left that may not be taken."""
        self.marks = 0
        """How often a call left something behind in what `contexts` hold."""
        self.changes = 0
        """How often an array was replaced in an object of a library."""
        self.axes: dict[str, Size] = {}
        """The axes that shard_map, pmap or vmap bind here, with their sizes."""
        self.checks_varying = False
        self.excused = 0
        """How many `try` and `pytest.raises` are around."""
        self.region: object = None
        self.branches = 0
        """How many branches of conditions that are not known are around."""
        self._copies: dict[int, tuple[Container, Container]] = {}
        self._rebound: dict[tuple[int, str], Value] = {}
        self._results: dict[Hashable, Value] = {}
        self._matches: dict[tuple[Place, str], tuple[bool, str]] = {}
        self._unplaced: dict[Place, tuple[Violation, tuple[str, ...]]] = {}
        self._bodies: dict[ast.AST, BodyEvents] = {}
        self.manual: Place | None = None
        """The function that shard_map maps here."""
        self.ran: set[ast.AST] = set()
        """The functions that ran."""
        self.uncalled: dict[Transformed, None] = {}
        """What transforms made of functions, and nothing called so far, in the order in which it was made."""
        self.rooted = False
        """Whether all calls that lead here are known."""
        self.mapped_at: int | None = None
        """How many calls lead to the function that is mapped here."""
        self.body: Place | None = None
        """The function that is mapped here."""
        self.events: BodyEvents | None = None
        """What runs in the body that shard_map or pmap maps here."""
        self.root: Place | None = None
        """The function that runs by itself, as nothing calls it."""
        self.assumed = False
        """Whether that function takes a default for granted."""
        self.decided: frozenset[str] = frozenset()
        """The manual axes along which devices may come here or not: by values of their own."""
        self.binder = ""
        """What binds the axes here, and no other than those of `axes`; "" where that is not known."""

    @property
    def with_defaults(self) -> bool:
        """True if options have their defaults in this run."""
        return self.readers is not None

    def note_option(self) -> None:
        """An option with a default is read."""
        self.option_readers.add(self.root.node if self.root is not None else self.file.tree)

    def add_frame(self, frame: Frame) -> Frame:
        """Add a frame to those that are released with the run."""
        self.frames.append(frame)
        return frame

    def changeable_copy(self, holder: ContainerType) -> ContainerType:
        """A container that may be changed: a copy of one that another module made."""
        if holder.region is not SHARED or self.region is SHARED:
            return holder
        if id(holder) not in self._copies:
            made = copy(holder)
            for name in ("items", "entries", "attributes"):
                if hasattr(made, name):
                    setattr(made, name, copy(getattr(made, name)))
            made.region = None
            self._copies[id(holder)] = holder, made
        return self._copies[id(holder)][1]  # type: ignore[return-value]

    def current_copy(self, holder: ContainerType) -> ContainerType:
        """A container as it is now: the copy of one that another module made and this run changed."""
        return self._copies[id(holder)][1] if id(holder) in self._copies else holder  # type: ignore[return-value]

    def write_attribute(self, holder: Instance, name: str, value: Value) -> None:
        """Write an attribute of an object: both values, where the writing may not have happened."""
        holder = self.changeable_copy(holder)
        if holder.registered or holder.others:
            self.changes += 1
            self.forget_changed(holder.others)
        holder.attributes[name] = self._value_after_write(holder, holder.attributes.get(name, MISSING), value)

    def note_transformed(self, transformed: Transformed) -> Transformed:
        """Note that a transform made something of a function, which is called here or at the end of the run."""
        if isinstance(transformed.function, Transformed):
            self.uncalled.pop(transformed.function, None)  # it is called by what was made of it
        self.uncalled[transformed] = None
        return transformed

    def forget_position(self) -> None:
        """Forget where the run was when its budget was spent."""
        self.calls.clear()
        self._active.clear()
        self.traced = self.excused = self.branches = 0
        self.region = None
        self.checks_varying = False
        self.decided = frozenset()
        self.contexts, self.axes, self.binder, self.manual, self.mapped_at, self.body = {}, {}, "", None, None, None
        self.events = None

    @contextmanager
    def enter_frame(self, frame: Frame) -> Iterator[None]:
        """Read and bind names of a frame."""
        before = getattr(self, "frame", frame)
        self.frame = frame
        try:
            yield
        finally:
            self.frame = before

    @contextmanager
    def run_uncertainly(self) -> Iterator[None]:
        """A part of the program that may run or not, or several times."""
        before, self.region = self.region, object()
        try:
            yield
        finally:
            self.region = before

    def allow_work(self, steps: int, without_layout: int = _PATIENCE) -> None:
        """Set how many steps may follow, and how many in a row may tell nothing of layouts."""
        self.work, self.patience = steps, without_layout
        self.least_work = max(steps - without_layout, 0)

    def count_step(self) -> None:
        """Count a step."""
        self.work -= 1
        if self.work < self.least_work:
            raise OutOfWork

    def record_violation(self, kind: str, place: Place, *calls: Hashable, **said: str) -> None:
        """Record a broken contract, unless the code expects an error. `calls` lead to it, if not those of now."""
        if not self.excused:
            self.enter_violation(self._make_violation(kind, place, calls, said))

    def note_doubt(self, kind: str, place: Place, over: frozenset[str], *calls: Hashable, **said: str) -> None:
        """Note a contract that is broken unless the body that is mapped here communicates over axes."""
        if self.events is not None and not self.excused:
            self.events.doubts.append(Doubt(self._make_violation(kind, place, calls, said), over, self.frame))

    def _make_violation(
        self, kind: str, place: Place, calls: tuple[Hashable, ...], said: Mapping[str, str]
    ) -> Violation:
        led = tuple(one for one in calls or self.calls if isinstance(one, Place))
        way = led, self.mapped_at, self.body, self.root
        return Violation(kind, place, said, *way, self.assumed, not self.branches)

    def enter_violation(self, violation: Violation) -> None:
        """Record a contract that was found to be broken: of two at one place the one that surely runs."""
        node = violation.place.node
        key = violation.kind, str(violation.place.file.path), getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        known = self.violations.get(key)
        if known is None or (violation.certain and not known.certain):
            self.violations[key] = violation

    def events_of(self, function: Value, place: Place) -> BodyEvents:
        """The events of a body: those of all calls of it, as what a function gives is not computed twice."""
        mapped = function_of(function)
        node = mapped.node if mapped is not None else place.node
        return self._bodies.setdefault(node, BodyEvents())

    def place_in_body(self, place: Place) -> Place:
        """The place in the function that is mapped here which leads to a place."""
        return self.calls[self.mapped_at] if self.mapped_at is not None and self.mapped_at < len(self.calls) else place

    def note_match(self, place: Place, pattern: str, text: str, found: bool, anywhere: bool) -> None:
        """Note what `re.match` made of a pattern at a place, and whether it stands anywhere in the text."""
        matched, missed = self._matches.get((place, pattern), (False, ""))
        self._matches[place, pattern] = matched or found, missed or (text if anywhere and not found else "")

    def _report_matches(self) -> None:
        """Record patterns that matched none of the paths, and stand inside of some."""
        for (place, pattern), (matched, missed) in self._matches.items():
            if missed and not matched:
                self.record_violation("pattern.anchored", place, pattern=pattern, path=missed)

    def note_unplaced(self, place: Place, axes: tuple[str, ...], **said: str) -> None:
        """Note that a parameter left its box whole, which names axes for it."""
        found = Violation("box.unplaced", place, said, tuple(self.calls), certain=not self.branches)
        if not self.excused:
            self._unplaced.setdefault(place, (found, axes))

    def forget_unplaced(self, place: Hashable) -> None:
        """Forget what was noted of parameters that left their boxes at a place: a constraint places them."""
        self._unplaced.pop(place, None)  # type: ignore[call-overload]

    def use_arrays(self, arrays: list[Layout]) -> None:
        """Record parameters that are used and lie whole, though a mesh has the axes that their boxes name."""
        if self.excused:
            return
        for array in arrays:
            found, axes = self._unplaced.get(array.unplaced, (None, ())) if array.unplaced else (None, ())  # type: ignore[call-overload]
            if found is None:
                continue
            meshes = [*self.entered, *(one.mesh for one in arrays if one.mesh is not None)]
            if any(set(axes) <= set(mesh.names) for mesh in meshes):
                certain = found.certain and not self.branches
                key = found.kind, str(found.place.file.path), found.place.line, 0
                self.violations.setdefault(key, replace(found, certain=certain))

    def _value_after_write(self, holder: Container, before: Value, value: Value) -> Value:
        """Return the value of a part of an object after a write. If the write may not have happened, return the join
        of both values.
        """
        if holder.region is self.region or before is MISSING:
            return value
        return join_values(before, value)

    def forget_changed(self, values: tuple[Value, ...]) -> None:
        """Forget what an unknown function may have changed of the objects of libraries that it was given."""
        if forget_objects(values, self.changeable_copy):
            self.changes += 1

    @abstractmethod
    def evaluate_expression(self, node: ast.expr) -> Value:
        """Return the value of an expression."""

    @abstractmethod
    def run_block(self, statements: list[ast.stmt]) -> Flow:
        """Run statements until one leaves."""

    @abstractmethod
    def assign_target(self, target: ast.expr, value: Value) -> None:
        """Assign to a target."""

    @abstractmethod
    def bind_name(self, name: str, value: Value) -> None:
        """Bind a name in this frame, or where `global` and `nonlocal` say."""

    @abstractmethod
    def lookup_name(self, name: str) -> Value:
        """Return the value of a name at this place."""

    @abstractmethod
    def make_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> FunctionValue:
        """The function that a definition makes."""

    @abstractmethod
    def run_module(self, file: FileFacts) -> Frame | None:
        """The names of a module of the project, which is run for them; None for one that is being run."""

    @abstractmethod
    def call_value(
        self,
        function: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool = False,
    ) -> Value:
        """Call something with arguments. `opened`: `*` or `**` hides some."""

    @abstractmethod
    def call_unknown(
        self, name: str, args: tuple[Value, ...], keywords: dict[str, Value], place: Place
    ) -> Value:
        """A function of which nothing is known: it may change the containers that it is given."""
