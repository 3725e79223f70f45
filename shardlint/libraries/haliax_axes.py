"""Named axes of haliax, arrays with such axes, and what a call that names axes requires of them.

Facts of haliax 1.4, each tried: an array has no two axes of one name; a selection of axes that an array lacks raises
ValueError, and one with the name of an axis and another size raises ValueError or RuntimeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from shardlint.layouts.layout import Layout, Size, are_surely_different, count_entries
from shardlint.layouts.values import (
    MISSING,
    Call,
    DictValue,
    Instance,
    Library,
    Native,
    Plain,
    Unknown,
    Value,
    known_items,
    map_tree,
)
from shardlint.libraries.jax_numpy import size_of
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass

NAMED_ARRAY = "haliax.NamedArray"
Selected = tuple[tuple[str, Size], ...]
"""The axes that an argument selects, by name, each with its size if that is said."""


@dataclass(frozen=True)
class Axis(Plain):
    """A `haliax.Axis`."""

    name: str
    size: Size

    def library_classes(self) -> frozenset[str]:
        """The classes that it is of."""
        return frozenset(("haliax.Axis",))

    @property
    def attributes(self) -> dict[str, Value]:
        """Return its attributes."""
        return {
            "name": self.name,
            "size": Unknown("a size") if self.size is None else self.size,
            "alias": Native("alias", lambda call: make_axis(call.argument_at(0, "new_name"), self.size)),
            "resize": Native("resize", lambda call: Axis(self.name, size_of(call.argument_at(0, "size")))),
        }

    def __str__(self) -> str:
        return f"{self.name}={'?' if self.size is None else self.size}"


@dataclass(eq=False)
class NamedArray(Instance):
    """An array with a named axis for each dimension; None where the axes are not known."""

    axes: tuple[Axis, ...] | None = None
    operators, is_array = "haliax", True

    @property
    def plain_array(self) -> Layout:
        """The array itself."""
        return layout_as_array(self.attributes["array"])

    @property
    def axis_names(self) -> list[str]:
        """The names of its axes, as far as they are known."""
        return [one.name for one in self.axes or ()]

    def library_classes(self) -> frozenset[str]:
        """The classes that it is of."""
        return frozenset((NAMED_ARRAY,))

    def with_parts(self, attributes: dict[str, Value]) -> Instance:
        """The same axes with another array."""
        return NamedArray(None, attributes, region=self.region, axes=self.axes)

    def is_like(self, other: Instance) -> bool:
        """Return whether both have the same axes."""
        return isinstance(other, NamedArray) and self.axes == other.axes

    def computed_attribute(self, name: str) -> Value:
        """Return the value of an attribute other than its array and methods."""
        if name == "axes":
            return Unknown("axes") if self.axes is None else self.axes
        if name == "shape" and self.axes is not None:
            sizes = {one.name: Unknown("a size") if one.size is None else one.size for one in self.axes}
            return DictValue(sizes)
        if name == "dtype":
            return Library(f"jax.numpy.{self.plain_array.dtype}") if self.plain_array.dtype else Unknown("a type")
        found = {"ndim": self.plain_array.rank, "size": count_entries(self.plain_array.shape)}.get(name, MISSING)
        return Unknown("of an array") if found is None else found

    def __str__(self) -> str:
        return self.plain_array.format_layout(self.axis_names) if self.axes is not None else str(self.plain_array)


def make_axis(name: Value, size: Size) -> Value:
    """An axis of a name."""
    return Axis(name, size) if isinstance(name, str) else Unknown("an axis")


@register_function("haliax Axis")
def construct_axis(call: Call) -> Value:
    """An axis."""
    return make_axis(call.argument_at(0, "name"), size_of(call.argument_at(1, "size")))


@register_function("haliax make_axes")
def make_axes(call: Call) -> Value:
    """Axes of keywords."""
    if call.open or call.args:
        return Unknown("axes")
    return tuple(Axis(name, size_of(size)) for name, size in call.keywords.items())


def selected_axes(value: Value) -> Selected | None:
    """The axes that an argument selects: an axis or its name, several of them, or a dict; None where not known."""
    match value:
        case Axis(name=name, size=size):
            return ((name, size),)
        case str():
            return ((value, None),)
        case DictValue(entries=entries, open=False):
            return tuple((str(name), size_of(size)) for name, size in entries.items())
    items = known_items(value)
    parts = [selected_axes(one) if isinstance(one, Axis | str) else None for one in items or ()]
    if items is None or None in parts:
        return None
    return tuple(one for part in parts for one in part or ())


def axes_of(value: Value) -> tuple[Axis, ...] | None:
    """The axes that an argument gives with their sizes; None where not known."""
    found = selected_axes(value)
    return None if found is None else tuple(Axis(*one) for one in found)


@register_function("haliax axis_name")
def axis_name(call: Call) -> Value:
    """The name of an axis, or the names of several."""
    given, found = call.argument_at(0, "ax"), selected_axes(call.argument_at(0, "ax"))
    if found is None:
        return Unknown("a name")
    return found[0][0] if isinstance(given, Axis | str) else tuple(name for name, _ in found)


@register_function("haliax concat_axes concat_axis_specs")
def concat_axes(call: Call) -> Value:
    """Axes one after the other."""
    parts = [axes_of(one) for one in call.args]
    if call.open or None in parts:
        return Unknown("axes")
    return tuple(one for part in parts for one in part or ())


# arrays


def make_named(call: Call, array: Value, axes: Sequence[Axis] | None) -> NamedArray:
    """An array with axes, which give it the sizes that are not known."""
    if axes is not None and isinstance(array, Layout):
        shape = tuple(one.size for one in axes)
        if array.shape is None:
            array = array.with_shape(shape)
        elif len(array.shape) == len(shape):
            sizes = tuple(own if own is not None else given for own, given in zip(array.shape, shape, strict=True))
            array = replace(array, shape=sizes) if sizes != array.shape else array
            axes = [Axis(one.name, size) for one, size in zip(axes, sizes, strict=True)]
    known = tuple(axes) if axes is not None else None
    return NamedArray(None, {"array": array}, region=call.interpreter.region, axes=known)


def call_jax(call: Call, name: str, *args: Value, **keywords: Value) -> Layout:
    """Return the result of a function of jax."""
    return layout_as_array(call.interpreter.call_value(Library(name), args, keywords, call.place))


def call_haliax(call: Call, name: str, *args: Value, **keywords: Value) -> Value:
    """Return the result of a function of haliax, called by another one of it."""
    return call.interpreter.call_value(Library(f"haliax.{name}"), args, keywords, call.place)


def is_named(value: Value) -> bool:
    """Return whether a value is an array with axes."""
    return isinstance(value, NamedArray)


def named_leaves(tree: Value) -> list[NamedArray]:
    """The arrays with axes in a tree."""
    found: list[NamedArray] = []

    def note_leaf(leaf: Value) -> Value:
        found.extend([leaf] if isinstance(leaf, NamedArray) else [])
        return leaf

    map_named(note_leaf, tree)
    return found


def map_named(change: Callable[[Value], Value], tree: Value) -> Value:
    """A tree with a function applied to its leaves, of which an array with axes is one."""
    return map_tree(change, tree, stop=is_named)


@register_function("haliax.util is_named_array", "haliax is_named_array")
def is_named_array(call: Call) -> Value:
    """Return whether an argument is an array with axes."""
    given = call.argument_at(0, "leaf")
    return is_named(given) if isinstance(given, Instance | Layout | str | int | float) else Unknown("a test")


@register_function(f"{NAMED_ARRAY} scalar item")
def scalar_array(call: Call) -> Value:
    """The array of a NamedArray without axes."""
    named = call.args[0]
    if not isinstance(named, NamedArray):
        return Unknown("a scalar")
    return named.plain_array if call.function_name == "scalar" else Unknown("a number")


@register_function(f"{NAMED_ARRAY} has_axis")
def has_axis(call: Call) -> Value:
    """Return whether the array has an axis. For several axes haliax always returns True."""
    named, chosen = call.args[0], call.argument_at(1, "axis")
    if not isinstance(named, NamedArray) or named.axes is None or not isinstance(chosen, Axis | str):
        return Unknown("a test")
    return chosen in named.axis_names if isinstance(chosen, str) else chosen.name in named.axis_names


@register_function(f"{NAMED_ARRAY} resolve_axis axis_size axis_indices")
def resolve_axes(call: Call) -> Value:
    """The axes, sizes or places of a selection."""
    named, given, last = (
        call.args[0],
        call.argument_at(1, "axes" if "axes" in call.keywords else "axis"),
        call.function_name,
    )
    chosen = selected_axes(given)
    if not isinstance(named, NamedArray) or named.axes is None or chosen is None or isinstance(given, DictValue):
        return Unknown("axes")
    if last == "axis_indices":
        places: list[Value] = [named.axis_names.index(name) if name in named.axis_names else None for name, _ in chosen]
    else:
        known = positions_of_axes(call, named, chosen)
        if known is None:
            return Unknown("what raises")
        axes = [named.axes[place] for place in known]
        sizes = [Unknown("a size") if one.size is None else one.size for one in axes]
        places = [*axes] if last == "resolve_axis" else [*sizes]
    return places[0] if isinstance(given, Axis | str) else tuple(places)


def sizes_of_axes(axes: Sequence[Axis] | None) -> Value:
    """The shape of axes as jax takes it."""
    if axes is None:
        return Unknown("a shape")
    return tuple(Unknown("a size") if one.size is None else one.size for one in axes)


def permute_axes(call: Call, array: NamedArray, names: Sequence[str]) -> NamedArray:
    """An array with its axes in another order."""
    if array.axis_names == list(names):
        return array
    places = tuple(array.axis_names.index(one) for one in names)
    axes = [(array.axes or ())[place] for place in places]
    return make_named(call, call_jax(call, "jax.numpy.transpose", array.plain_array, places), axes)


def widen_axes(call: Call, array: NamedArray, axes: Sequence[Axis], ordered: bool = True) -> NamedArray:
    """An array with all of some axes: new ones in front, and if `ordered` those given in their order."""
    own = array.axes or ()
    added = [one for one in axes if one.name not in array.axis_names]
    every = [*added, *own]
    made = array
    if added:
        made = make_named(
            call, call_jax(call, "jax.numpy.broadcast_to", array.plain_array, sizes_of_axes(every)), every
        )
    names = [one.name for one in axes]
    if ordered and [one.name for one in every if one.name in names] != names:
        return permute_axes(call, made, [*names, *(one.name for one in own if one.name not in names)])
    return made


# what a call requires


def positions_of_axes(call: Call, named: NamedArray, chosen: Iterable[tuple[str, Size]]) -> list[int] | None:
    """The dimensions of selected axes. None where they are not known, or haliax raises, which is recorded."""
    if named.axes is None:
        return None
    found = []
    for name, size in chosen:
        if name not in named.axis_names:
            record_violation(call, "named.missing", axis=name, array=str(named))
            return None
        place = named.axis_names.index(name)
        if are_surely_different(named.axes[place].size, size):
            record_violation(call, "named.sizes", axis=name, left=str(named), right=str(Axis(name, size)))
            return None
        found.append(place)
    return found


def check_unique(call: Call, axes: Sequence[Axis]) -> bool:
    """Record axes of which two have one name; whether none do."""
    names = [one.name for one in axes]
    again = next((one for one in names if names.count(one) > 1), None)
    if again is not None:
        record_violation(call, "named.twice", axis=again, axes=", ".join(map(str, axes)))
    return again is None


def check_sizes(call: Call, arrays: Sequence[NamedArray]) -> bool:
    """Record an axis that two arrays have with different sizes; whether there is none."""
    met: dict[str, tuple[Axis, NamedArray]] = {}
    for array in arrays:
        for one in array.axes or ():
            first, other = met.setdefault(one.name, (one, array))
            if are_surely_different(first.size, one.size):
                record_violation(call, "named.sizes", axis=one.name, left=str(other), right=str(array))
                return False
    return True


def record_violation(call: Call, kind: str, **said: str) -> None:
    """Record a broken contract of the called function."""
    call.interpreter.record_violation(kind, call.place, operation=call.function_name, **said)
