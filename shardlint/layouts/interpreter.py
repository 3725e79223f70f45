"""An abstract interpreter of Python: it runs a file as Python would, on layouts in place of arrays.

Modules run from top to bottom, then each function of the file that nothing called, with unknown arguments. Calls run
the body of the function with the layouts of this call. A condition that is not known runs both branches and joins what
they leave. A loop runs over the items that are known, or once for the first turn and again with what that changed.

What breaks a contract of a library is recorded as a `Violation`. Work is counted, not timed: past its budget nothing
more is known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from shardlint.layouts import expressions
from shardlint.layouts.body_events import BodyEvents, Doubt
from shardlint.layouts.layout import Layout, Mesh, Size, Symbol
from shardlint.layouts.pieces import UnknownShape
from shardlint.layouts.uncalled import OutOfWork, run_uncalled
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    AxisTypeValue,
    Call,
    ClassValue,
    Container,
    Device,
    Devices,
    DictValue,
    Field,
    Frame,
    FunctionValue,
    Instance,
    Lazy,
    Library,
    ListValue,
    Method,
    ModuleValue,
    Native,
    Partial,
    PartitionSpec,
    Plain,
    Sharding,
    Transformed,
    Unknown,
    Value,
    forget_objects,
    function_of,
    join,
)
from shardlint.model import api
from shardlint.model.needs import Memo
from shardlint.model.project import Project
from shardlint.model.values import Place
from shardlint.source.lazy import dataclass
from shardlint.source.searches import WORD
from shardlint.syntax import FileFacts

__all__ = ["Interpreter", "Modules", "Violation"]

_WORK = 60_000
# A module that is imported may take so many steps.
_MODULE_WORK = 20_000
_DEPTH = 40
_TURNS = 16
_ROUNDS = 2

_PLAIN = (
    int, float, complex, str, bytes, type(None), Layout, Mesh, PartitionSpec, Sharding, Unknown, Symbol, Library,
    AxisTypeValue, Device, Devices, Plain,
)  # fmt: skip
_FUNCTIONS = (FunctionValue, ClassValue, Native, Partial)
_CALLED = (*_FUNCTIONS, Method, Instance)
# Libraries whose functions call nothing of a project that they are not given, and make no parts of its modules.
_HARMLESS = frozenset(
    """
absl builtins chex collections contextlib copy dataclasses einops einshard enum functools haliax inspect itertools jax
jaxtyping json logging math ml_dtypes numpy operator optax os random re string sys tensorflow time typing
typing_extensions warnings
""".split()
)
# Functions of jax that communicate, of those that are not modelled.
_COMMUNICATING = ("jax.lax.p", "jax.lax.ragged", "jax.lax.all_", "jax.experimental.")
ContainerType = TypeVar("ContainerType", bound=Container)
Flow = Literal["next", "leave", "break", "continue"]
"""How a block ends: `leave` is a return or a raise."""


@dataclass(frozen=True)
class Violation:
    """A contract of a library that a call breaks.

    kind: the name of the contract, such as "spec.rank".
    place: the expression that breaks it.
    said: what a message needs, by name.
    calls: the calls that lead there, the outermost first.
    """

    kind: str
    place: Place
    said: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[Place, ...] = ()
    mapped: int | None = None
    """In what shard_map or pmap runs on each device, how many of the calls lead to that."""
    body: Place | None = None
    """The function that shard_map or pmap maps there."""
    root: Place | None = None
    """The function that ran by itself, as nothing calls it here."""
    assumed: bool = False
    """Whether it rests on a default, which a caller that is not in sight may replace."""
    certain: bool = True
    """Whether the place surely runs once the program comes to the first of the calls: no condition that is not known
    stands between, and no option is taken for its default."""
    by_default: bool = False
    """Whether it is broken where the options of the program have their defaults."""
    inside: tuple[Place, ...] = ()
    """Where the place is a call: the calls that it leads to in other files, and what breaks the contract there."""

    @property
    def way(self) -> tuple[Place, ...]:
        """The calls and the place, from the function on that shard_map or pmap maps, if one does."""
        return (*self.calls, self.place, *self.inside)[self.mapped or 0 :]

    @property
    def quoted(self) -> dict[str, str]:
        """What was said, each as code in a message."""
        return {name: f"`{text}`" for name, text in self.said.items()}

    @property
    def quoted_axes(self) -> str:
        """The axes that were said, each as code in a message."""
        return " and ".join(f"`{axis}`" for axis in self.said["axes"].split(", "))


class Modules:
    """The modules of a project that were run to be imported: each once, and what it made is not changed again."""

    def __init__(
        self, project: Project, libraries: Mapping[str, object], releases: Mapping[str, tuple[int, ...]]
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
        """Whether a function yields."""
        node = function.node
        if isinstance(node, ast.Lambda):
            return False
        if node not in self._generators:
            file = function.frame.file
            self._generators[node] = "yield" in file.text(node) and any(
                isinstance(one, ast.Yield | ast.YieldFrom) for one in file.walked(file.scope(node)).returns
            )
        return self._generators[node]

    def field_names(self, made_of: ClassValue) -> tuple[str, ...]:
        """The fields of a class and its bases, in the order in which a dataclass takes them."""
        if made_of.node not in self._fields:
            found = [name for one in reversed(made_of.order) for name in _fields(one.node)]
            self._fields[made_of.node] = tuple(dict.fromkeys(found))
        return self._fields[made_of.node]

    def make_lazy(self, load: Callable[[], Value]) -> Lazy:
        """What an import binds, read when it is asked for."""
        return Lazy(load, self._imported)

    def frame(self, facts: FileFacts) -> Frame | None:
        """The names of a module. None for one that is being run: it imports itself through others."""
        path = facts.path
        if path in self._running:
            self._circular.update(self._running[self._running.index(path) + 1 :])
            return None
        # What a circle of imports leaves depends on where it was entered: it is made anew each time.
        made = self._frames.make if path in self._circular else self._frames.get
        return made(path, lambda: self._import(facts))

    def release(self) -> None:
        """Forget all modules, so that their files go at once: functions and the frames around them know each other."""
        for frame in self._made:
            frame.release()
        vars(self._imported).clear()
        vars(self).clear()

    def _import(self, facts: FileFacts) -> Frame:
        self._running.append(facts.path)
        try:
            run = Interpreter(self, facts)
            run.work = _MODULE_WORK
            run.region = SHARED
            run.import_module()
        finally:
            self._running.remove(facts.path)
        self._made += run.frames
        return run.frame


SHARED = object()
"""The region of what importing a module makes."""


class Interpreter:
    """One run of a file of a project. `with_defaults` takes options of the program for what they are by default."""

    def __init__(self, modules: Modules, file: FileFacts, with_defaults: bool = False) -> None:
        self.modules = modules
        self.project = modules.project
        self.libraries = modules.libraries
        self.releases = modules.releases
        self.file = file
        self.with_defaults = with_defaults
        self.options_met = False
        """Whether the program has an option with a default."""
        self.flags: dict[str, Value] = {}
        """The flags of absl that the file defines, by their names in the library."""
        self.violations: dict[tuple[str, str, int, int], Violation] = {}
        self.layouts: dict[ast.AST, Value] = {}
        """What the expressions of the file came to, the last time they ran."""
        self.work = _WORK
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

    # running

    def run(self) -> None:
        """Run the file: the module with its `main`, then the functions that nothing called and that place arrays."""
        self.file.looked.whole()
        frame = self.frame = self._framed(Frame({"__name__": "__main__"}, None, self.file))
        try:
            self.rooted, self.binder = True, "no shard_map, pmap or vmap"
            self.block(self.file.tree.body)
            self._report_matches()
            self.rooted, self.binder = False, ""
            run_uncalled(self, frame)
        except (OutOfWork, RecursionError):
            pass

    def release(self) -> None:
        """Forget everything, so that it goes at once: functions, the frames around them and the run know each other."""
        for frame in self.frames:
            frame.release()
        vars(self).clear()

    def _framed(self, frame: Frame) -> Frame:
        self.frames.append(frame)
        return frame

    def import_module(self) -> None:
        """Run the file as a module that others import."""
        self.frame = self._framed(Frame({"__name__": self.file.path.stem}, None, self.file))
        with suppress(OutOfWork, RecursionError):
            self.block(self.file.module.body)
        self.layouts.clear()

    def thaw(self, holder: ContainerType) -> ContainerType:
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
        holder = self.thaw(holder)
        if holder.registered or holder.others:
            self.changes += 1
            self.forget_changed(holder.others)
        holder.attributes[name] = self._written(holder, holder.attributes.get(name, MISSING), value)

    def note_transformed(self, made: Transformed) -> Transformed:
        """Note that a transform made something of a function, which is called here or at the end of the run."""
        if isinstance(made.function, Transformed):
            self.uncalled.pop(made.function, None)  # it is called by what was made of it
        self.uncalled[made] = None
        return made

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

    def module(self, file: FileFacts) -> Frame | None:
        """The names of a module of the project, which is run for them; None for one that is being run."""
        if file is self.file:
            return None
        return self.modules.frame(file)

    @contextmanager
    def _in(self, frame: Frame) -> Iterator[None]:
        before = getattr(self, "frame", frame)
        self.frame = frame
        try:
            yield
        finally:
            self.frame = before

    @contextmanager
    def uncertain(self) -> Iterator[None]:
        """A part of the program that may run or not, or several times."""
        before, self.region = self.region, object()
        try:
            yield
        finally:
            self.region = before

    def spend(self) -> None:
        """Count a step."""
        self.work -= 1
        if self.work < 0:
            raise OutOfWork

    # what is found

    def violate(self, kind: str, place: Place, *calls: Hashable, **said: str) -> None:
        """Record a broken contract, unless the code expects an error. `calls` lead to it, if not those of now."""
        if not self.excused:
            self.enter_violation(self._violation_of(kind, place, calls, said))

    def note_doubt(self, kind: str, place: Place, over: frozenset[str], *calls: Hashable, **said: str) -> None:
        """Note a contract that is broken unless the body that is mapped here communicates over axes."""
        if self.events is not None and not self.excused:
            self.events.doubts.append(Doubt(self._violation_of(kind, place, calls, said), over, self.frame))

    def _violation_of(self, kind: str, place: Place, calls: tuple[Hashable, ...], said: Mapping[str, str]) -> Violation:
        led = tuple(one for one in calls or self.calls if isinstance(one, Place))
        way = led, self.mapped_at, self.body, self.root
        return Violation(kind, place, said, *way, self.assumed, not self.branches)

    def enter_violation(self, found: Violation) -> None:
        """Record a contract that was found to be broken: of two at one place the one that surely runs."""
        node = found.place.node
        key = found.kind, str(found.place.file.path), getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        known = self.violations.get(key)
        if known is None or (found.certain and not known.certain):
            self.violations[key] = found

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
                self.violate("pattern.anchored", place, pattern=pattern, path=missed)

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

    # names

    def lookup(self, name: str) -> Value:
        """What a name is here."""
        frame: Frame | None = self.frame
        start = frame
        while frame is not None:
            if name in frame.names and not (frame.is_class and frame is not start):
                if self._rebound and (id(frame), name) in self._rebound:
                    return self._rebound[id(frame), name]
                found = frame.names[name]
                return found.value() if isinstance(found, Lazy) else found
            frame = frame.outer
        self.frame.file.looked.note(WORD, name)  # the module may come to bind it
        return expressions.builtin(name)

    def bind(self, name: str, value: Value) -> None:
        """Bind a name in this frame, or where `global` and `nonlocal` say."""
        frame = self.frame
        if name in frame.globals_:
            frame = frame.module
        elif name in frame.nonlocals:
            outer = frame.outer
            while outer is not None and name not in outer.names:
                outer = outer.outer
            frame = outer or frame
        if frame is not self.frame and self.region is not None and name in frame.names:
            value = join(frame.names[name], value)
        if frame.file is self.file or frame.outer is not None:
            frame.names[name] = value
        else:  # a global of another module, which other files see as its import left it
            self._rebound[id(frame), name] = value

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign to a target."""
        match target:
            case ast.Name(id=name):
                self.bind(name, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, value)
            case ast.Starred(value=inner):
                self.assign(inner, value)
            case ast.Attribute(value=owner, attr=name):
                holder = self.value(owner)
                if isinstance(holder, Instance):
                    hook = expressions.find_hook(self, holder, "__setattr__")
                    if hook is not None:
                        self.call(hook, (holder, name, value), {}, Place(self.frame.file, target))
                    self.write_attribute(holder, name, value)
                elif isinstance(holder, ClassValue) and holder.frame.file is self.file:
                    holder.names[name] = value
            case ast.Subscript(value=owner, slice=index):
                holder, key = self.value(owner), self.value(index)
                if isinstance(holder, DictValue | ListValue):
                    holder = self.thaw(holder)
                if isinstance(holder, DictValue):
                    if isinstance(key, str | int | bool | float | tuple | Plain | None) and _hashable(key):
                        holder.entries[key] = self._written(holder, holder.entries.get(key, MISSING), value)
                        holder.open = holder.open or holder.region is not self.region
                    else:
                        holder.open = True
                        holder.entries.clear()
                elif isinstance(holder, ListValue):
                    if isinstance(key, int) and -len(holder.items) <= key < len(holder.items):
                        holder.items[key] = self._written(holder, holder.items[key], value)
                    else:
                        holder.items = [Unknown("an entry was replaced")] * min(len(holder.items), 1)
                        holder.open = True
                elif isinstance(holder, Instance):
                    hook = expressions.find_hook(self, holder, "__setitem__")
                    if hook is not None:
                        self.call(hook, (holder, key, value), {}, Place(self.frame.file, target))

    def _written(self, holder: Container, before: Value, value: Value) -> Value:
        """What a part of an object is after it was written: both, where the writing may not have happened."""
        if holder.region is self.region or before is MISSING:
            return value
        return join(before, value)

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        items = self.items(value)
        if isinstance(value, UnknownShape):
            items = [value.size_at(place) for place in range(len(targets))]
        starred = next((place for place, one in enumerate(targets) if isinstance(one, ast.Starred)), None)
        if items is None or (starred is None and len(items) != len(targets)) or len(items) < len(targets) - 1:
            each = value if isinstance(value, AnyTree) else expressions.element(self, value)
            for target in targets:
                self.assign(target, ListValue([], True) if isinstance(target, ast.Starred) else each)
            return
        if starred is not None:
            after = len(targets) - starred - 1
            middle = ListValue(list(items[starred : len(items) - after]), region=self.region)
            items = [*items[:starred], middle, *(items[len(items) - after :] if after else [])]
        for target, item in zip(targets, items, strict=True):
            self.assign(target, item)

    def items(self, value: Value) -> list[Value] | None:
        """The items of something that is iterated over; None where they are not all known."""
        return expressions.items(self, value)

    def value(self, node: ast.expr) -> Value:
        """What an expression comes to."""
        self.spend()
        found = expressions.evaluate(self, node)
        if self._copies and isinstance(found, Container) and id(found) in self._copies:
            found = self._copies[id(found)][1]
        self.layouts[node] = found
        return found

    # statements

    def block(self, statements: list[ast.stmt]) -> Flow:
        """Run statements until one leaves."""
        for statement in statements:
            flow = self.statement(statement)
            if flow != "next":
                return flow
        return "next"

    def statement(self, node: ast.stmt) -> Flow:
        """Run one statement."""
        self.spend()
        match node:
            case ast.Expr(value=expression):
                self.value(expression)
            case ast.Assign(targets=targets, value=expression):
                found = self.value(expression)
                for target in targets:
                    self.assign(target, found)
            case ast.AnnAssign(target=target, value=expression):
                if expression is not None:
                    self.assign(target, self.value(expression))
            case ast.AugAssign(target=target, op=op, value=expression):
                self._augmented(node, target, op, expression)
            case ast.Return(value=expression):
                self.frame.returned.append(self.value(expression) if expression is not None else None)
                return "leave"
            case ast.Raise():
                return "leave"
            case ast.If(test=test, body=body, orelse=orelse):
                return self._branches(expressions.truth(self, test), body, orelse)
            case (
                ast.For(target=target, iter=source, body=body, orelse=orelse)
                | ast.AsyncFor(target=target, iter=source, body=body, orelse=orelse)
            ):
                return self._for(target, expressions.evaluate_iterable(self, source), body, orelse)
            case ast.While(test=test, body=body):
                if expressions.truth(self, test) is False:
                    return "next"
                return self._loop(None, None, body)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                return self._with(items, body)
            case ast.Try() | ast.TryStar():
                return self._try(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.bind(node.name, self._defined(node))
            case ast.ClassDef():
                self.bind(node.name, self._class(node))
            case ast.Import(names=names):
                file = self.frame.file
                for alias in names:
                    dotted = alias.name if alias.asname else alias.name.partition(".")[0]
                    self.bind(alias.asname or dotted, self.modules.make_lazy(partial(self._module_named, dotted, file)))
            case ast.ImportFrom():
                self._import_from(node)
            case ast.Global(names=names):
                self.frame.globals_.update(names)
            case ast.Nonlocal(names=names):
                self.frame.nonlocals.update(names)
            case ast.Break():
                return "break"
            case ast.Continue():
                return "continue"
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        self.frame.names.pop(target.id, None)
            case ast.Assert(test=test):
                return "leave" if expressions.truth(self, test) is False else "next"
            case ast.Match(subject=subject, cases=cases):
                return self._match(self.value(subject), cases)
        return "next"

    def _match(self, subject: Value, cases: list[ast.match_case]) -> Flow:
        """The first case that fits; all that may, where that is not known."""
        possible: list[list[ast.stmt]] = []
        for case in cases:
            fits = expressions.matches(self, case.pattern, subject)
            if fits and case.guard is not None:
                fits = expressions.truth(self, case.guard)
            if fits:
                possible.append(case.body)
                break
            if fits is None:
                possible.append(case.body)
        else:
            possible.append([])
        return self.block(possible[0]) if len(possible) == 1 else self._ways(possible)

    def _augmented(
        self, node: ast.AugAssign, target: ast.expr, op: ast.operator, expression: ast.expr
    ) -> None:
        load = ast.copy_location(ast.BinOp(left=expressions.as_load(target), op=op, right=expression), node)
        found = expressions.evaluate(self, load)
        held = self.layouts.get(load.left)
        if isinstance(held, Instance) and held.operand is not held:
            self.changes += 1
            self.thaw(held).forget()  # a release of flax changes it in place, another raises
        self.assign(target, found)

    def _branches(self, truth: bool | None, body: list[ast.stmt], orelse: list[ast.stmt]) -> Flow:
        if truth is not None:
            return self.block(body if truth else orelse)
        return self._ways([body, orelse])

    def _ways(self, blocks: list[list[ast.stmt]]) -> Flow:
        """Run several blocks of which one runs, and join what they leave."""
        frame, before = self.frame, dict(self.frame.names)
        mesh, known = self.mesh, self.mesh_known
        returned = len(frame.returned)
        ends: list[dict[str, Value]] = []
        flows: list[Flow] = []
        for statements in blocks:
            frame.names = dict(before)
            self.branches += 1
            with self.uncertain():
                flow = self.block(statements)
            self.branches -= 1
            flows.append(flow)
            if flow == "next":
                ends.append(frame.names)
            if self.mesh is not mesh:
                known = False
                self.mesh = mesh
        self.mesh_known = known
        if len(frame.returned) > returned:
            frame.maybe_left += 1
            self.branches += 1  # up to the end of the function
        self.doubts += len(frame.returned) > returned or bool({"break", "continue"} & set(flows))
        if not ends:
            frame.names = before
            return flows[0] if len(set(flows)) == 1 else "leave"
        frame.names = _joined(ends)
        return "next"

    def _for(self, target: ast.expr, iterated: Value, body: list[ast.stmt], orelse: list[ast.stmt]) -> Flow:
        items = self.items(iterated)
        if items is not None and len(items) <= _TURNS:
            for item in items:
                self.assign(target, item)
                flow = self.block(body)
                if flow == "leave":
                    return flow
                if flow == "break":
                    return "next"
            return self.block(orelse)
        return self._loop(target, iterated, body)

    def _loop(self, target: ast.expr | None, iterated: Value, body: list[ast.stmt]) -> Flow:
        """A loop of any number of turns: the first one, then those after it."""
        frame = self.frame
        with self.uncertain():
            for turn in range(_ROUNDS):
                before = dict(frame.names)
                if target is not None:
                    self.assign(target, expressions.element(self, iterated))
                self.block(body)
                after = _joined([before, frame.names])
                if turn == _ROUNDS - 1:
                    unstable = {
                        name for name, value in after.items()
                        if name in before and _differs(before[name], value)
                    }  # fmt: skip
                    after.update(dict.fromkeys(unstable, Unknown("a loop changes it")))
                frame.names = after
        return "next"

    def _with(self, items: list[ast.withitem], body: list[ast.stmt]) -> Flow:
        from shardlint.libraries.contexts import entered

        before = self.mesh, self.mesh_known, self.excused, self.legacy, self.contexts
        for item in items:
            context = self.value(item.context_expr)
            found = entered(self, context)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, found)
        flow = self.block(body)
        self.mesh, self.mesh_known, self.excused, self.legacy, self.contexts = before
        return flow

    def _try(self, node: ast.Try | ast.TryStar) -> Flow:
        self.excused += bool(node.handlers)
        frame, before = self.frame, dict(self.frame.names)
        flow = self.block(node.body)
        if flow == "next":
            flow = self.block(node.orelse)
        self.excused -= bool(node.handlers)
        ends = [frame.names] if flow == "next" else []
        for handler in node.handlers:
            frame.names = _joined([before, frame.names])
            if handler.name:
                frame.names[handler.name] = Unknown("an exception")
            with self.uncertain():
                if self.block(handler.body) == "next":
                    ends.append(frame.names)
        frame.names = _joined(ends) if ends else before
        final = self.block(node.finalbody)
        if final != "next":
            return final
        return "next" if ends else flow if flow != "next" else "leave"

    # definitions

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        found: Value = self.function(node)
        for decorator in reversed(node.decorator_list):
            found = self.call(self.value(decorator), (found,), {}, Place(self.frame.file, decorator))
        return found

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> FunctionValue:
        """The function that a definition makes."""
        arguments = node.args
        keyword_defaults = {
            one.arg: self.value(default)
            for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is not None
        }
        defaults = [self.value(one) for one in arguments.defaults]
        return FunctionValue(node, self.frame, defaults, keyword_defaults)

    def _class(self, node: ast.ClassDef) -> Value:
        bases = [self.value(one) for one in node.bases]
        frame = self._framed(Frame({}, self.frame, self.frame.file, is_class=True))
        with self._in(frame):
            self.block(node.body)
        decorators = [self.value(one) for one in node.decorator_list]
        made = ClassValue(node, frame.names, bases, self.frame, decorators)
        for value in frame.names.values():
            inner = getattr(value, "function", value)
            if isinstance(inner, FunctionValue):
                inner.owner = made
        return made

    def _module_named(self, dotted: str, file: FileFacts) -> Value:
        if dotted.partition(".")[0] not in api.LIBRARIES:
            path = self.project.resolve(dotted, file.path)
            facts = self.project.facts(path) if path is not None else None
            if facts is not None:
                frame = self.module(facts)
                return ModuleValue(frame) if frame is not None else Unknown("a module in a circle")
        from shardlint.libraries import load_library

        load_library(dotted.partition(".")[0])
        return Library(api.canonical(dotted))

    def _import_from(self, node: ast.ImportFrom) -> None:
        file = self.frame.file
        for alias in node.names:
            if alias.name == "*":
                module = self._source(node, file)
                if isinstance(module, ModuleValue):
                    module.frame.file.looked.every()
                    for name, value in module.frame.names.items():
                        if not name.startswith("_"):
                            self.bind(name, value)
                elif isinstance(module, Library):
                    for name in self._starred(module.name):
                        self.bind(name.rpartition(".")[2], Library(name))
                continue
            load = partial(self._member, node, alias.name, file)
            self.bind(alias.asname or alias.name, self.modules.make_lazy(load))

    def _source(self, node: ast.ImportFrom, file: FileFacts) -> Value:
        """The module that a `from` statement takes names from."""
        if not node.level:
            return self._module_named(node.module or "", file)
        path = self.project.relative(file.path, node.level, node.module or "")
        facts = self.project.facts(path) if path is not None else None
        frame = self.module(facts) if facts is not None else None
        return ModuleValue(frame) if frame is not None else Unknown("a module that is not here")

    def _starred(self, module: str) -> list[str]:
        return [name for name in self.libraries if name.rpartition(".")[0] == module]

    def _member(self, node: ast.ImportFrom, name: str, file: FileFacts) -> Value:
        module = self._source(node, file)
        if isinstance(module, ModuleValue):
            found = expressions.read_member(module, name)
            if name in module.frame.names:
                return found
            return self._submodule_of(node, name, file) or Unknown(f"{name} is not there")
        # A folder of the project that has no `__init__`.
        if isinstance(module, Library) and "." not in module.name and module.name not in api.LIBRARIES:
            return self._submodule_of(node, name, file) or expressions.attribute(self, module, name, Place(file, node))
        if isinstance(module, Library):
            return expressions.attribute(self, module, name, Place(file, node))
        return Unknown("it comes from a module that is not here")

    def _submodule_of(self, node: ast.ImportFrom, name: str, file: FileFacts) -> ModuleValue | None:
        """A module of a package of the project, which a `from` statement takes from the package."""
        dotted = f"{node.module}.{name}" if node.module else name
        path = (
            self.project.relative(file.path, node.level, dotted)
            if node.level
            else self.project.resolve(dotted, file.path)
        )
        facts = self.project.facts(path) if path is not None else None
        frame = self.module(facts) if facts is not None else None
        return ModuleValue(frame) if frame is not None else None

    # calls

    def call(
        self,
        function: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool = False,
    ) -> Value:
        """Call something with arguments. `opened`: `*` or `**` hides some."""
        self.spend()
        match function:
            case FunctionValue():
                return self.call_function(function, args, keywords, place, opened)
            case Method(function=inner, receiver=receiver):
                return self.call(inner, (receiver, *args), keywords, place, opened)
            case Partial(function=inner, args=first, keywords=given):
                return self.call(inner, (*first, *args), {**given, **keywords}, place, opened)
            case ClassValue():
                return self._instance(function, args, keywords, place, opened)
            case Native(name=name, run=run):
                # What binds the axes of a jit that nothing binds here may be known where it runs by itself.
                if self.uncalled and isinstance(function, Transformed) and (self.axes or self.binder or name != "jit"):
                    self.uncalled.pop(function, None)
                return run(Call(self, args, keywords, place, name, opened))
            case Library(name=name):
                known = self.libraries.get(name) or self.libraries.get(_wildcard_of(name))
                made = Call(self, args, keywords, place, name, opened)
                refuses = self.libraries.get("shardlint.out_sharding") if "out_sharding" in keywords else None
                if refuses is not None and refuses(made):  # type: ignore[operator]
                    return Unknown("what raises")
                if known is not None:
                    return known(made)  # type: ignore[operator]
                return self.call_unknown(name, args, keywords, place)
            case Field(leaf=Layout() as array, name=name) if expressions.is_array_method(name):
                return self.call(expressions.attribute(self, array, name, place), args, keywords, place, opened)
            case Field(leaf=Layout(rows=rows), name="replace") if rows is not None and not self.axes:
                return AnyTree(Layout(rows=rows))
            case Instance(call=Native() as run):
                return self.call(run, args, keywords, place, opened)
            case Instance():
                method = expressions.attribute(self, function, "__call__", place)
                if not isinstance(method, Unknown):
                    return self.call(method, args, keywords, place, opened)
        return self.call_unknown("", args, keywords, place)

    def call_unknown(
        self, name: str, args: tuple[Value, ...], keywords: dict[str, Value], place: Place
    ) -> Value:
        """A function of which nothing is known: it may change the containers that it is given."""
        method = getattr(getattr(place.node, "func", None), "attr", "") if not name else ""
        known = self.libraries.get(f"shardlint.method.{method}")
        found = known(Call(self, args, keywords, place, method)) if known is not None else None  # type: ignore[operator]
        if found is not None:
            return found
        if not _is_harmless(name) or any(isinstance(one, _CALLED) for one in (*args, *keywords.values())):
            self.doubts += 1
        if name.partition(".")[0] not in api.LIBRARIES:
            for one in (*args, *keywords.values()):
                if isinstance(one, ListValue | DictValue):
                    self.thaw(one).open = True
        if not _is_harmless(name) or name == "builtins.setattr":
            self.forget_changed((*args, *keywords.values()))
        if self.events is not None and name.startswith(_COMMUNICATING):
            self.events.is_open = True
        unseen = self.libraries.get("shardlint.unseen") if self.axes and not _is_harmless(name) else None
        if unseen is not None:
            return unseen(Call(self, args, keywords, place, name))  # type: ignore[operator]
        return Unknown(f"`{name}` is not modelled" if name else "what is called is not known")

    def forget_changed(self, values: tuple[Value, ...]) -> None:
        """Forget what an unknown function may have changed of the objects of libraries that it was given."""
        if forget_objects(values, self.thaw):
            self.changes += 1

    def call_function(
        self,
        function: FunctionValue,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool = False,
    ) -> Value:
        """Run the body of a function of the project."""
        key = self._key(function, args, keywords, opened)
        if key is not None and key in self._results:
            return self._results[key]
        left = (self.doubts, self.marks) if self.contexts else None
        changes = self.changes
        found = self._called(function, args, keywords, place, opened)
        same = changes == self.changes and (left is None or left == (self.doubts, self.marks))
        if key is not None and _is_plain(found) and same:
            self._results[key] = found
        return found

    def _key(
        self, function: FunctionValue, args: tuple[Value, ...], keywords: dict[str, Value], opened: bool
    ) -> Hashable:
        """What the result of a call depends on; None where that may change."""
        given = (*args, *keywords.values())
        if function.frame.outer is not None or not all(map(_is_plain, given)):
            return None
        around = (
            self.mesh,
            self.mesh_known,
            self.traced > 0,
            self.checks_varying,
            self.excused > 0,
            self.branches > 0,
            self.changes,
        )
        axes = (tuple(self.axes.items()), self.decided, self.legacy, *map(id, self.contexts.values()))
        typed = tuple(type(one) for one in given)
        mapped = self.rooted, self.binder, self.events
        return (function, args, tuple(keywords.items()), typed, opened, around, axes, *mapped)

    def _called(
        self,
        function: FunctionValue,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool,
    ) -> Value:
        node = function.node
        if len(self.calls) >= _DEPTH or self._active.count(node) > 2:
            self.forget_changed((*args, *keywords.values()))
            if self.events is not None:
                self.events.is_open = True
            return Unknown("calls go too deep")
        frame = self._framed(
            Frame(self._bound(function, args, keywords, opened), function.frame, function.frame.file)
        )
        self.ran.add(node)
        is_generator = self.modules.is_generator(function)
        if is_generator:
            frame.yielded = ListValue(region=self.region)
        before = self.frame, self.mesh, self.mesh_known, self.rooted
        self.calls.append(place)
        self._active.append(node)
        self.frame = frame
        self.rooted &= not is_generator and not isinstance(node, ast.AsyncFunctionDef)  # these run later
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body)
            flow = self.block(node.body)
        finally:
            self.branches = max(self.branches - frame.maybe_left, 0)
            self.frame, *_ = before
            self.calls.pop()
            self._active.pop()
            self.rooted = before[3]
            if not function.name.startswith("set"):
                same = self.mesh_known and self.mesh == before[1]  # else the call has set it for good
                self.mesh, self.mesh_known = before[1], before[2] and same
        if frame.yielded is not None:
            return frame.yielded
        results = frame.returned if flow == "leave" else [*frame.returned, None]
        if not results:
            return Unknown("it only raises")
        found = results[0]
        for one in results[1:]:
            found = join(found, one)
        return found

    def _bound(
        self, function: FunctionValue, args: tuple[Value, ...], keywords: dict[str, Value], opened: bool
    ) -> dict[str, Value]:
        """The parameters of a function in a call."""
        given = function.node.args
        positional = function.positional
        names: dict[str, Value] = {}
        for name, default in zip(reversed(positional), reversed(function.defaults), strict=False):
            names[name] = self._assume_default(default) if opened else default
        keyword_defaults = function.keyword_defaults.items()
        names.update({name: self._assume_default(value) if opened else value for name, value in keyword_defaults})
        names.update(zip(positional, args, strict=False))
        rest = dict(keywords)
        for name in (*positional, *(one.arg for one in given.kwonlyargs)):
            if name in rest:
                names[name] = rest.pop(name)
            elif name not in names:
                names[name] = Unknown(f"the parameter `{name}`")
        if given.vararg is not None:
            more = args[len(positional) :]
            names[given.vararg.arg] = Unknown("star arguments") if opened else tuple(more)
        if given.kwarg is not None:
            names[given.kwarg.arg] = DictValue(rest, opened, region=self.region)
        return names

    def _assume_default(self, default: Value) -> Value:
        """What a default is for an unknown caller: names of axes are assumed to be those that it gives."""
        match default:
            case str() | PartitionSpec():
                self.assumed = True
                return default
            case tuple() if default and all(isinstance(one, str) for one in default):
                self.assumed = True
                return default
            case Instance(attributes=attributes) if default.of is not None and not default.registered:
                return default.with_parts({name: self._assume_default(one) for name, one in attributes.items()})
        return Unknown("a default that a caller may replace")

    def _instance(
        self,
        made_of: ClassValue,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool,
    ) -> Value:
        maker = expressions.find_hook(self, made_of, "__new__")
        made = (
            self.call(maker, (made_of, *args), keywords, place, opened)
            if maker is not None
            else Instance(made_of, region=self.region)
        )
        if not isinstance(made, Instance) or made.complete:
            return made
        init = made_of.find("__init__")
        libraries = made_of.libraries()
        if init is not MISSING:
            self.call(init, (made, *args), keywords, place, opened)
            made.open = bool(libraries - {"equinox.Module", "typing.NamedTuple"})
            return made
        fields = self.modules.field_names(made_of)
        if libraries - {"equinox.Module", "typing.NamedTuple", "flax.struct.PyTreeNode", "typing.Protocol"}:
            made.open = True
        for name, value in zip(fields, args, strict=False):
            made.attributes[name] = value
        made.attributes.update(keywords)
        for name in fields:
            if name not in made.attributes:
                default = made_of.find(name)
                known = _is_plain(default) or isinstance(default, (*_FUNCTIONS, Instance))
                made.attributes[name] = default if known and not opened else Unknown("a field")
                if opened:
                    made.attributes[name] = self._assume_default(default)
        made.open = made.open or opened
        after = made_of.find("__post_init__")
        if after is not MISSING:
            self.call(after, (made,), {}, place)
        hook = expressions.find_hook(self, made, "__post_init__")
        return made if hook is None else self.call(hook, (made,), {}, place)


def _is_plain(value: Value) -> bool:
    """Whether a value never changes and compares by what it is."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _wildcard_of(name: str) -> str:
    """What stands for functions of a module that are not modelled one by one, but only compute."""
    return f"{name.rpartition('.')[0]}.*"


def _is_harmless(name: str) -> bool:
    return name.partition(".")[0] in _HARMLESS


def _fields(node: ast.ClassDef) -> list[str]:
    return [
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and "ClassVar" not in ast.unparse(one.annotation)
    ]


def _joined(ends: list[dict[str, Value]]) -> dict[str, Value]:
    first, *others = ends
    found = dict(first)
    for other in others:
        for name in list(found):
            found[name] = join(found[name], other[name]) if name in other else found[name]
        for name, value in other.items():
            found.setdefault(name, value)
    return found


def _differs(one: Value, two: Value) -> bool:
    if one is two:
        return False
    if isinstance(one, Container) or isinstance(two, Container):
        return False
    return not (type(one) is type(two) and one == two)


def _hashable(key: Value) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
