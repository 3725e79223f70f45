"""How values in the body of a `shard_map` or `pmap` differ from device to device along the axes that are manual there.

The values of a small abstract interpretation (shardlint/model/manual/bodies.py): what varies over which axis, what was
reduced over which, and how it came to be (a mean of a shard, a random mask).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace

from shardlint.model.values import AxisOf, Constant, Items, Parameter, Place, Table, Unknown, Value, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

Axis = str | Parameter | AxisOf
"""A mesh axis: its name, or the parameter that gives the name or the mesh that has it."""
Axes = frozenset[Axis]
NONE: Axes = frozenset()
COPIES = "copies"
OPEN = "**"
"""Stands, among the keywords of a call, for settings that are not seen."""


class Local:
    """Base of what an expression is on each device."""

    __slots__ = ()


@dataclass(frozen=True)
class Leaf(Local):
    """An array, or a tree of arrays that are alike.

    `over` are the axes along which devices surely hold different shards of something, `maybe` those of which that
    depends on the way taken. `open` says that it went through code that is not seen, which may reduce anything, and
    `firm` are the axes along which something that did not go through it varies all the same. `reduced` are the axes
    some collective reduced it over on the way. `traced` says that it comes of an argument of the body. `marks` are the
    events (by number) that this value is still right about: dividing it takes them off.
    `kind` is, while it still is just that: "mask", "gathered", "key" or "gradient"; "index" for one along axes;
    "copies" for a state of which every call gives each device a copy.
    `origin` is where it came to vary.
    """

    over: Axes = NONE
    maybe: Axes = NONE
    open: bool = False
    reduced: Axes = NONE
    kind: str = ""
    traced: bool = False
    marks: frozenset[int] = frozenset()
    origin: Place | None = field(default=None, compare=False)
    spec: tuple[Axes, ...] | None = None
    """The axes along each dimension, for an argument as it came; there may be more dimensions."""
    value: Value | None = field(default=None, compare=False)
    """What object it is a tree of, where a call in sight tells."""
    firm: Axes = NONE

    @property
    def sure(self) -> Axes:
        """The axes along which it varies whatever the code does that is not seen."""
        return self.firm if self.open else self.over

    def same_over(self, axis: Axis) -> bool:
        """Whether all devices along an axis surely hold the same: a parameter that it varies over may be that axis."""
        varies = self.over | self.maybe
        return not self.open and not any(
            one == axis or isinstance(one, str) != isinstance(axis, str) for one in varies
        )

    def plain(self) -> Leaf:
        """The same after some arithmetic."""
        return replace(self, kind="", spec=None) if self.kind or self.spec is not None else self


@dataclass(frozen=True)
class Tree(Local):
    """A tuple or list."""

    items: tuple[Local, ...]


@dataclass(frozen=True)
class Record(Local):
    """A dict whose keys are known."""

    entries: tuple[tuple[object, Local], ...]

    def get(self, key: object) -> Local | None:
        """What is under a key."""
        return next((one for name, one in self.entries if name == key), None)


@dataclass(frozen=True)
class Updated(Local):
    """An object or a dict of which some fields are given anew: `state.replace(step=...)`, `{**state, "step": ...}`."""

    fields: tuple[tuple[object, Local], ...]
    rest: Local
    """What it was before: all of its other fields."""

    def get(self, name: object) -> Local | None:
        """A field that is given anew."""
        return next((one for field, one in self.fields if field == name), None)


@dataclass(frozen=True)
class Known(Local):
    """Something from outside of the body, the same on all devices: a constant, a function, a configuration."""

    value: Value


class Told(tuple[Axes, ...]):
    """The axes along each dimension of an array of which it is told how many dimensions there are."""

    __slots__ = ()


class Product(tuple[Axes, ...]):
    """The axes along the dimensions of a matrix product: the last one is that of the second matrix."""

    __slots__ = ()


class Columns(Product):
    """The axes along the last dimension of a matrix product; of those before it nothing is told."""

    __slots__ = ()


@dataclass(eq=False)
class Frame:
    """The names of one call of a function, inside those of the functions around it."""

    names: dict[str, Local]
    parent: Frame | None = None

    def find(self, name: str) -> Local | None:
        """What a name is; None where no frame binds it."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.parent
        return None


@dataclass(frozen=True, eq=False)
class Closure(Local):
    """A function defined in the body."""

    file: FileFacts
    node: ast.FunctionDef | ast.Lambda
    frame: Frame


@dataclass(frozen=True, eq=False)
class Through(Local):
    """A function through a transform, or with arguments bound by `partial`."""

    api: str
    inner: Local
    arguments: tuple[Local, ...] = ()
    keywords: Mapping[str, Local] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """Something of interest in a body. `chain` are the calls that lead to it from the body, outermost first."""

    kind: str
    place: Place
    chain: tuple[Place, ...]
    axes: tuple[Axis, ...]
    leaf: Leaf
    note: str = ""

    def seen_from(self, file: FileFacts) -> Place | None:
        """The event as seen from a file: itself, or the innermost call there that leads to it."""
        return next((one for one in (self.place, *reversed(self.chain)) if one.file is file), None)


NOTHING = Leaf()
HIDDEN = Leaf(open=True)


def leaves(value: Local) -> Iterator[Leaf]:
    """The leaves of a tree; a function or an object from outside is one that is the same everywhere."""
    match value:
        case Leaf():
            yield value
        case Tree(items=items):
            for item in items:
                yield from leaves(item)
        case Record(entries=entries):
            for _, item in entries:
                yield from leaves(item)
        case Updated(fields=fields, rest=rest):
            for item in (rest, *(field for _, field in fields)):
                yield from leaves(item)
        case Through(arguments=arguments, keywords=keywords):
            for item in (*arguments, *keywords.values()):
                yield from leaves(item)
        case _:
            yield NOTHING


def combined(values: Iterable[Local], kind: str = "") -> Leaf:
    """What is computed from several values: it varies where one of them does. `HIDDEN` stands for unseen code."""
    found = [leaf for value in values for leaf in leaves(value)]
    over = frozenset().union(*(leaf.over for leaf in found)) if found else NONE
    maybe = frozenset().union(*(leaf.maybe for leaf in found)) - over if found else NONE
    hidden = any(leaf is HIDDEN for leaf in found)
    return Leaf(
        over,
        maybe,
        any(leaf.open for leaf in found),
        frozenset().union(*(leaf.reduced for leaf in found)) if found else NONE,
        kind,
        any(leaf.traced for leaf in found),
        frozenset().union(*(leaf.marks for leaf in found)) if found else frozenset(),
        _origin(found),
        firm=NONE if hidden else NONE.union(*(leaf.sure for leaf in found)),
    )


def kept_spec(values: Iterable[Local]) -> tuple[Axes, ...] | None:
    """How what is computed element by element is split: as the arrays it is made of, where they are split alike."""
    specs = {one.spec for one in values if isinstance(one, Leaf)}
    if len(specs) != 1:
        return None
    # A vector beside a product goes along the last dimension of it.
    alike = (one.spec for one in values if isinstance(one, Leaf) and isinstance(one.spec, Columns))
    return next(alike, specs.pop())


def _origin(found: list[Leaf]) -> Place | None:
    origins = [leaf.origin for leaf in found if leaf.over and leaf.origin is not None]
    # What was done to gradients says more than where an argument came in.
    return next((one for one in origins if isinstance(one.node, ast.Call)), origins[0] if origins else None)


def either(one: Local, two: Local) -> Local:
    """One of two values, depending on the way taken."""
    if one is two or one == two:
        return one
    match one, two:
        case Tree(items=left), Tree(items=right) if len(left) == len(right):
            return Tree(tuple(either(a, b) for a, b in zip(left, right, strict=True)))
        case Record(entries=left_entries), Record(entries=right_entries) if {k for k, _ in left_entries} == {
            k for k, _ in right_entries
        }:
            other = dict(right_entries)
            return Record(tuple((key, either(item, other[key])) for key, item in left_entries))
        case (Updated(fields=fields), other) | (other, Updated(fields=fields)) if isinstance(other, Leaf | Updated):
            names = dict.fromkeys([name for name, _ in fields] + [name for name, _ in getattr(other, "fields", ())])
            both = ((name, either(field_of(one, name), field_of(two, name))) for name in names)
            return Updated(tuple(both), either(without_fields(one), without_fields(two)))
        case Known(value=left_value), Known(value=right_value):
            return one if left_value == right_value else Known(Unknown("one of several"))
        case (Known(), _) | (_, Known()):
            pass
    a, b = combined([one]), combined([two])
    kind = a.kind if a.kind == b.kind else ""
    if isinstance(one, Leaf) and isinstance(two, Leaf):
        kind = one.kind if one.kind == two.kind else ""
    return Leaf(
        a.over & b.over,
        (a.over | b.over | a.maybe | b.maybe) - (a.over & b.over),
        a.open or b.open,
        a.reduced | b.reduced,
        kind,
        a.traced or b.traced,
        a.marks | b.marks,
        a.origin or b.origin,
        firm=a.sure & b.sure,
    )


def without_fields(value: Local) -> Local:
    """An object as it was before fields of it were given anew."""
    return value.rest if isinstance(value, Updated) else value


def field_of(value: Local, name: object) -> Local:
    """A field of an object: what it is given anew, else what the object is."""
    found = value.get(name) if isinstance(value, Updated) else None
    return found if found is not None else combined([without_fields(value)])


def with_fields(base: Local, fields: Mapping[str, Local] | Mapping[object, Local]) -> Updated:
    """An object with some of its fields given anew."""
    known: dict[object, Local] = dict(base.fields) if isinstance(base, Updated) else {}
    known.update(fields.items())
    return Updated(tuple(known.items()), without_fields(base))


def each(value: Local, change: Callable[[Leaf], Local]) -> Local:
    """A tree with something done to its leaves."""
    match value:
        case Leaf():
            return change(value)
        case Tree(items=items):
            return Tree(tuple(each(item, change) for item in items))
        case Record(entries=entries):
            return Record(tuple((key, each(item, change)) for key, item in entries))
        case Updated(fields=fields, rest=rest):
            return Updated(tuple((key, each(item, change)) for key, item in fields), each(rest, change))
        case Known(value=Items(items=items, open=False)):
            return Tree(tuple(each(Known(item), change) for item in items))
        case Known(value=Table(entries=entries, open=False)):
            return Record(tuple((key, each(Known(item), change)) for key, item in entries))
    return change(combined([value]))


def axes_of(value: Value) -> tuple[Axis, ...] | None:
    """The axes that an `axis_name` or the entry of a spec names; None where that is not told."""
    found: list[Axis] = []
    for option in options(value):
        match option:
            case Constant(value=str(name)):
                found.append(name)
            case Constant(value=None):
                continue
            case Parameter() | AxisOf(index=int()):
                found.append(option)
            case Items(items=items, open=False):
                for item in items:
                    inner = axes_of(item)
                    if inner is None:
                        return None
                    found.extend(inner)
            case Items(items=(), names_of=Value() as names):
                # A name that the mesh lacks would stand for one device.
                inner = axes_of(names)
                if inner is None:
                    return None
                found.extend(inner)
            case _:
                return None
    # Of several possible axes none is sure.
    return tuple(dict.fromkeys(found)) if len(options(value)) == 1 else None
