"""flax linen: Modules, the names of their parts, and where in an application their variables are.

Facts of flax, each tried: a Module that is made in a method of another one is its part, named by its class and a count;
in `setup`, and where it is given as a field from outside, it is named by the attribute. Lifted transforms put a word
before the name of the class.

What is made on a way that may not be taken has no known name: the dict that it belongs to is open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING

from shardlint.layouts.layout import Size
from shardlint.layouts.values import (
    MISSING,
    Call,
    ClassValue,
    DictValue,
    Instance,
    Library,
    Native,
    Unknown,
    Value,
    item_of,
)
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

APPLICATION, _PREFIX = "application of flax", "lifted class of flax"
WORDS = {"remat": "Checkpoint", "checkpoint": "Checkpoint", "jit": "Jit", "scan": "Scan", "vmap": "Vmap"}
"""What transforms put before the name of a class."""
Apply = Callable[[Call, "Module"], Value]


@dataclass(frozen=True)
class Lift:
    """A `scan` or `vmap` of a Module: `axes` say for each collection where its variables get an axis."""

    call: Call
    axes: dict[str, Value]

    def axis_name(self) -> Value:
        """The name of the new axis in boxes; `MISSING` where none is given."""
        given = self.call.keywords.get("metadata_params")
        if given is None:
            return MISSING
        if not isinstance(given, DictValue) or given.open:
            return Unknown("metadata")
        return next((one for key, one in given.entries.items() if key == "partition_name"), MISSING)


@dataclass(eq=False)
class Module(Instance):
    """An object of a Module of the project, or of a layer of linen: then `apply` is what it does."""

    transparent = False
    apply: Apply | None = None
    class_name: str | None = None
    lifts: tuple[Lift, ...] = ()
    scope: Scope | None = None
    is_set_up: bool = False

    def library_classes(self) -> frozenset[str]:
        """The classes of libraries that it is of."""
        if self.of is not None:
            return self.of.library_classes()
        return frozenset((f"flax.linen.{self.class_name}", "flax.linen.Module"))

    def with_parts(self, attributes: dict[str, Value]) -> Instance:
        """The same Module with other fields, in no other."""
        return Module(
            self.of, attributes, self.open, apply=self.apply, class_name=self.class_name, lifts=self.lifts
        )

    def setting_value(self, name: str, default: Value) -> Value:
        """A field of a layer."""
        return self.attributes.get(name, default)


@dataclass(eq=False)
class Scope:
    """Where a Module is in an application. `name` is None where it is not known; `path` leads to its variables."""

    app: Application
    parent: Scope | None = None
    name: str | None = ""
    counts: dict[str, int] = field(default_factory=dict)
    sized: tuple[tuple[Lift, Size], ...] = ()
    doubts: int = 0
    inside: int = 0

    def given_variables(self, collection: str) -> Value:
        """The variables of a collection that were given for it."""
        if self.parent is None:
            return item_of(self.app.given, collection)
        return item_of(self.parent.given_variables(collection), self.name) if self.name is not None else Unknown()

    def created_variables(self, collection: str) -> DictValue:
        """The variables of a collection that it makes; nobody sees those of a part whose name is not known."""
        holder = self.app.made if self.parent is None else self.parent.created_variables(collection)
        key = collection if self.parent is None else self.name
        if key is None:
            holder.open = True
            return DictValue(open=True)
        found = holder.entries.setdefault(key, DictValue(region=self.app.region))
        return found if isinstance(found, DictValue) else DictValue(open=True)

    def existing_variables(self, collection: str) -> DictValue | None:
        """The same where there are some."""
        holder = self.app.made if self.parent is None else self.parent.existing_variables(collection)
        key = collection if self.parent is None else self.name
        found = holder.entries.get(key) if holder is not None and key is not None else None
        return found if isinstance(found, DictValue) else None

    def is_sure(self, run: RunState, counted: bool = False) -> bool:
        """Return whether the module that is made now is surely made; with `counted` also whether all earlier ones are
        known.
        """
        return run.region is self.app.region and not (counted and run.doubts - self.doubts - self.inside)

    def scope_of_part(self, run: RunState, name: str | None) -> Scope:
        """The scope of a part."""
        run.marks += 1
        return Scope(self.app, self, name if self.is_sure(run) else None, sized=self.sized)


@dataclass(eq=False)
class Application:
    """One `init` or `apply`: the variables that are given and made, and the Modules that run, the innermost last."""

    region: object
    initializing: bool
    given: Value
    rngs: Value
    made: DictValue = field(default_factory=DictValue)
    running: list[tuple[Module, bool]] = field(default_factory=list)
    adopted: dict[int, tuple[Module, Module]] = field(default_factory=dict)
    changed: list[tuple[Scope, str, str, Instance]] = field(default_factory=list)
    uncommitted: bool = False


def running_application(run: RunState) -> Application | None:
    """The one that runs; None outside of `init` and `apply`."""
    found = run.contexts.get(APPLICATION)
    return found if isinstance(found, Application) else None


# construction


@register_function("flax.linen.Module.__post_init__")
def construct_module(call: Call) -> Value:
    """An object of a class of the project."""
    made: Instance = call.args[0]
    known = made.of is not None and not made.of.decorators
    name = made.of.node.name if made.of is not None and known else None
    return bind_module(call, Module(made.of, made.attributes, made.open, region=made.region, class_name=name))


def bind_module(call: Call, module: Module) -> Module:
    """A Module that was just made: a part of the one whose method runs, if there is one."""
    run = call.interpreter
    app, lift = running_application(run), run.contexts.get(_PREFIX)
    if isinstance(lift, Lifted):
        module.class_name = f"{lift.word}{module.class_name}" if module.class_name is not None else None
        module.lifts = (*lift.lifts, *module.lifts)
    if app is None or not app.running or module.attributes.get("parent", MISSING) is not MISSING:
        return module
    (owner, in_setup), name = app.running[-1], module.attributes.get("name")
    scope = owner.scope
    if scope is None or (in_setup and name is None):
        return module
    if name is None and module.class_name is not None and scope.is_sure(run, counted=True):
        count = scope.counts.get(module.class_name, 0)
        scope.counts[module.class_name] = count + 1
        name = f"{module.class_name}_{count}"
    elif name is None:
        run.doubts += 1  # the names of those after it are not known
    module.scope = scope.scope_of_part(run, name if isinstance(name, str) else None)
    return module


class Lifted(Native):
    """A class of Modules that a transform changed."""

    def __init__(self, word: str, lifts: tuple[Lift, ...], inner: Value) -> None:
        super().__init__("flax.linen.lifted", self._make_lifted)
        for name, value in (("word", word), ("lifts", lifts), ("inner", inner)):
            object.__setattr__(self, name, value)

    word: str
    lifts: tuple[Lift, ...]
    inner: Value

    def _make_lifted(self, call: Call) -> Value:
        run = call.interpreter
        before = run.contexts
        outer = before.get(_PREFIX)
        merged = self if not isinstance(outer, Lifted) else Lifted(
            outer.word + self.word, (*outer.lifts, *self.lifts), self.inner
        )  # fmt: skip
        run.contexts = {**before, _PREFIX: merged}
        try:
            return run.call_value(self.inner, call.args, call.keywords, call.place, call.open)
        finally:
            run.contexts = before


def is_module_class(value: Value) -> bool:
    """Return whether a value is a class of Modules."""
    if isinstance(value, ClassValue):
        return "flax.linen.Module" in value.library_classes()
    return isinstance(value, Lifted) or (isinstance(value, Library) and value.name in LAYER_NAMES)


LAYER_NAMES: set[str] = set()
"""The layers of linen, by canonical names."""


@register_function("flax.linen remat checkpoint jit")
def rewrap_module(call: Call) -> Value:
    """A Module or function that is compiled or computed again: it does the same."""
    given = call.argument_at(0, "target", None)
    if given is None:
        return Native(call.name, lambda again: rewrap_module(replace(again, name=call.name)))
    if is_module_class(given):
        return Lifted(WORDS[call.function_name], (), given)
    return given
