"""Calls of functions, classes and objects."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from shardlint.layouts.attributes import attribute_of_value, find_hook, is_array_method
from shardlint.layouts.layout import Layout, Mesh, Symbol
from shardlint.layouts.run_state import RunState
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    AxisTypeValue,
    Call,
    ClassValue,
    Device,
    Devices,
    DictValue,
    Field,
    Frame,
    FunctionValue,
    Instance,
    Library,
    ListValue,
    Method,
    Native,
    Partial,
    PartitionSpec,
    Plain,
    Sharding,
    Transformed,
    Unknown,
    Value,
    is_one_copy,
    join_values,
)
from shardlint.model import api
from shardlint.model.values import Place

_DEPTH = 40
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


class Calls(RunState):
    """A run of calls."""

    def call_value(
        self,
        function: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool = False,
    ) -> Value:
        """Call something with arguments. `opened`: `*` or `**` hides some."""
        self.count_step()
        match function:
            case FunctionValue():
                return self.call_function(function, args, keywords, place, opened)
            case Method(function=inner, receiver=receiver):
                return self.call_value(inner, (receiver, *args), keywords, place, opened)
            case Partial(function=inner, args=first, keywords=given):
                return self.call_value(inner, (*first, *args), {**given, **keywords}, place, opened)
            case ClassValue():
                return self._make_instance(function, args, keywords, place, opened)
            case Native(name=name, run=run):
                # What binds the axes of a jit that nothing binds here may be known where it runs by itself.
                if self.uncalled and isinstance(function, Transformed) and (self.axes or self.binder or name != "jit"):
                    self.uncalled.pop(function, None)
                return run(Call(self, args, keywords, place, name, opened))
            case Library(name=name):
                known = self.libraries.get(name) or self.libraries.get(_wildcard_of(name))
                made = Call(self, args, keywords, place, name, opened)
                refuses = self.libraries.get("shardlint.out_sharding") if "out_sharding" in keywords else None
                if refuses is not None and refuses(made):
                    return Unknown("what raises")
                if known is not None:
                    if not self.traced and any(map(_is_mixed, args)):
                        self.libraries["shardlint.typed"](made)
                    return known(made)
                return self.call_unknown(name, args, keywords, place)
            case Field(leaf=Layout() as array, name=name) if is_array_method(name):
                return self.call_value(attribute_of_value(self, array, name, place), args, keywords, place, opened)
            case Field(leaf=Layout(rows=rows), name="replace") if rows is not None and not self.axes:
                return AnyTree(Layout(rows=None if any(map(is_one_copy, keywords.values())) else rows))
            case Instance(call=Native() as run):
                return self.call_value(run, args, keywords, place, opened)
            case Instance():
                method = attribute_of_value(self, function, "__call__", place)
                if not isinstance(method, Unknown):
                    return self.call_value(method, args, keywords, place, opened)
        return self.call_unknown("", args, keywords, place)

    def call_unknown(
        self, name: str, args: tuple[Value, ...], keywords: dict[str, Value], place: Place
    ) -> Value:
        """A function of which nothing is known: it may change the containers that it is given."""
        method = getattr(getattr(place.node, "func", None), "attr", "") if not name else ""
        known = self.libraries.get(f"shardlint.method.{method}")
        found = known(Call(self, args, keywords, place, method)) if known is not None else None
        if found is not None:
            return found
        if not _is_harmless(name) or any(isinstance(one, _CALLED) for one in (*args, *keywords.values())):
            self.doubts += 1
        if name.partition(".")[0] not in api.LIBRARIES:
            for one in (*args, *keywords.values()):
                if isinstance(one, ListValue | DictValue):
                    self.changeable_copy(one).open = True
        if not _is_harmless(name) or name == "builtins.setattr":
            self.forget_changed((*args, *keywords.values()))
        if self.events is not None and name.startswith(_COMMUNICATING):
            self.events.is_open = True
        unseen = self.libraries.get("shardlint.unseen") if self.axes and not _is_harmless(name) else None
        if unseen is not None:
            return unseen(Call(self, args, keywords, place, name))
        return Unknown(f"`{name}` is not modelled" if name else "what is called is not known")

    def call_function(
        self,
        function: FunctionValue,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool = False,
    ) -> Value:
        """Run the body of a function of the project."""
        key = self._cache_key(function, args, keywords, opened)
        if key is not None and key in self._results:
            return self._results[key]
        left = (self.doubts, self.marks) if self.contexts else None
        changes = self.changes
        found = self._call_function(function, args, keywords, place, opened)
        same = changes == self.changes and (left is None or left == (self.doubts, self.marks))
        if key is not None and _is_plain(found) and same:
            self._results[key] = found
        return found

    def _cache_key(
        self, function: FunctionValue, args: tuple[Value, ...], keywords: dict[str, Value], opened: bool
    ) -> Hashable:
        """Return the cache key of a call's result; None if the result may change."""
        given = (*args, *keywords.values())
        if function.frame.outer is not None or not all(map(_is_plain, given)):
            return None
        around = (
            self.mesh,
            self.mesh_known,
            self.traced,
            self.checks_varying,
            self.excused > 0,
            self.branches > 0,
            self.changes,
        )
        axes = (tuple(self.axes.items()), self.decided, self.legacy, *map(id, self.contexts.values()))
        typed = tuple(type(one) for one in given)
        mapped = self.rooted, self.binder, self.events
        return (function, args, tuple(keywords.items()), typed, opened, around, axes, *mapped)

    def _call_function(
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
        frame = self.add_frame(
            Frame(self._bind_arguments(function, args, keywords, opened), function.frame, function.frame.file)
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
                return self.evaluate_expression(node.body)
            flow = self.run_block(node.body)
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
            found = join_values(found, one)
        return found

    def _bind_arguments(
        self, function: FunctionValue, args: tuple[Value, ...], keywords: dict[str, Value], opened: bool
    ) -> dict[str, Value]:
        """The parameters of a function in a call."""
        given = function.node.args
        positional = function.positional_parameters
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
        """Return the assumed value of a default for an unknown caller. Names of axes are assumed to be the default
        ones.
        """
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

    def _make_instance(
        self,
        made_of: ClassValue,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool,
    ) -> Value:
        maker = find_hook(self, made_of, "__new__")
        made = (
            self.call_value(maker, (made_of, *args), keywords, place, opened)
            if maker is not None
            else Instance(made_of, region=self.region)
        )
        if not isinstance(made, Instance) or made.complete:
            return made
        init = made_of.find_attribute("__init__")
        libraries = made_of.library_classes()
        if init is not MISSING:
            self.call_value(init, (made, *args), keywords, place, opened)
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
                default = made_of.find_attribute(name)
                if opened:
                    made.attributes[name] = self._assume_default(default)
                else:
                    known = _is_plain(default) or isinstance(default, (*_FUNCTIONS, Instance))
                    made.attributes[name] = default if known else Unknown("a field")
        made.open = made.open or opened
        after = made_of.find_attribute("__post_init__")
        if after is not MISSING:
            self.call_value(after, (made,), {}, place)
        hook = find_hook(self, made, "__post_init__")
        return made if hook is None else self.call_value(hook, (made,), {}, place)


def _is_plain(value: Value) -> bool:
    """Return whether a value is immutable and compares by content."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _is_mixed(value: Value) -> bool:
    """Return whether an argument is an array on a mesh that mixes Auto and Explicit axes, or holds one."""
    if isinstance(value, ListValue | tuple):
        items = value.items if isinstance(value, ListValue) else value
        return any(isinstance(one, Layout) and _is_mixed(one) for one in items)
    return isinstance(value, Layout) and value.mesh is not None and value.mesh.is_mixed


def _wildcard_of(name: str) -> str:
    """Return the wildcard for functions of a module that only compute and are not modelled one by one."""
    return f"{name.rpartition('.')[0]}.*"


def _is_harmless(name: str) -> bool:
    return name.partition(".")[0] in _HARMLESS
