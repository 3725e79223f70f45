"""Values of the abstract interpreter.

Numbers, strings, None, tuples and slices are those of Python. Everything else is one of these.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shardlint.layouts.layout import AxisType, Layout, Mesh, Order, Rows, Shape, Size
from shardlint.model.needs import Memo
from shardlint.model.values import Place
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

Value = Any
"""A value of the interpreter. Any: it holds plain values of Python too, and each use tests what it is."""


@dataclass(frozen=True)
class Unknown:
    """A value of which nothing is known, and why."""

    why: str = ""


@dataclass(frozen=True)
class PartitionSpec:
    """A spec as written: an entry is None, a name, a tuple of names, or not known. `open`: there may be more."""

    entries: tuple[Value, ...]
    open: bool = False

    def axes_of_entries(self) -> tuple[tuple[str, ...] | None, ...]:
        """The axes of each entry."""
        return tuple(_axes_of_entry(entry) for entry in self.entries)


def _axes_of_entry(entry: Value) -> tuple[str, ...] | None:
    if entry is None:
        return ()
    if isinstance(entry, str):
        return (entry,)
    if isinstance(entry, tuple) and all(isinstance(one, str) for one in entry):
        return entry
    return None


@dataclass(frozen=True)
class Sharding:
    """A NamedSharding, or one on a single `device`."""

    mesh: Mesh | Unknown | None
    spec: PartitionSpec | Unknown
    memory: str | None = "device"
    device: str | None = None


@dataclass(frozen=True)
class Devices:
    """An array or list of devices. `order` is that of a mesh of them (see `Mesh.devices`)."""

    shape: Shape
    order: Order | None = "all"


@dataclass(frozen=True)
class Device:
    """One device, by the number it has in `jax.devices()`."""

    name: str


@dataclass(frozen=True)
class Library:
    """Something of a library, by its canonical name."""

    name: str


@dataclass(frozen=True)
class AxisTypeValue:
    """A member of `jax.sharding.AxisType`."""

    name: AxisType


class Plain:
    """A value of a library that never changes and compares by what it is."""

    def library_classes(self) -> frozenset[str]:
        """The classes that it is of."""
        return frozenset()


@dataclass(eq=False)
class Container:
    """Object that a program mutates. `region` is the uncertain part of the program in which it was made."""

    region: object = field(default=None, kw_only=True)


@dataclass(eq=False)
class ListValue(Container):
    """A list, set, or what an iterator gives. `open`: it may hold more, each like one of its items.

    `length` is known of some that are open.
    """

    items: list[Value] = field(default_factory=list)
    open: bool = False
    length: Size = None


@dataclass(eq=False)
class DictValue(Container):
    """A dict. `open`: it may have other keys."""

    entries: dict[Any, Value] = field(default_factory=dict)
    open: bool = False
    declared: Place | None = field(default=None, kw_only=True)
    """Where the specs are written that alone tell its keys."""
    written: Place | None = field(default=None, kw_only=True)
    """The dict in the text, of one that is written so."""


@dataclass(eq=False)
class Instance(Container):
    """An object of a class of the project. `open`: its attributes are not all known."""

    of: ClassValue | None = None
    attributes: dict[str, Value] = field(default_factory=dict)
    open: bool = False
    call: Value = None
    """What a call of it runs, for an object of a library."""
    others: tuple[Instance, ...] = field(default=(), kw_only=True)
    """The objects of which it may be any: what is written into it may be written into them."""
    transparent = True
    """Whether jax looks into it, where it is of no class of the project."""
    operators = ""
    """The module whose functions its operators call; "" for an object that has none, or those of its `operand`."""
    is_array = False
    """Whether it is an array with names for its dimensions, as its text shows."""

    def with_parts(self, attributes: dict[str, Value]) -> Instance:
        """The same object with other attributes, as a tree of them is made anew."""
        return Instance(self.of, attributes, self.open)

    def is_like(self, other: Instance) -> bool:
        """Return whether it differs from another one at most in its attributes."""
        return type(self) is type(other)

    def library_classes(self) -> frozenset[str]:
        """The classes of libraries that its class is made from."""
        return self.of.library_classes() if self.of is not None else frozenset()

    def tree_children(self) -> dict[str, Value]:
        """Return the attributes that are its children in a pytree."""
        return self.attributes

    def with_tree(self, parts: dict[str, Value]) -> Instance:
        """The same object with other parts of its tree."""
        return self.with_parts(parts)

    def computed_attribute(self, name: str) -> Value:
        """An attribute that it has by other means; `MISSING` where there is none."""
        return MISSING

    @property
    def as_operand(self) -> Value:
        """Return it as an operand of arithmetic."""
        return self

    def forget_changes(self) -> None:
        """Forget what a function may have changed that got it, and of which nothing is known."""

    complete = False
    """Whether no `__init__` runs after the class of a library made it."""
    registered = False
    """Whether jax looks into it though its class says nothing of that."""


@dataclass(eq=False)
class State(DictValue):
    """A dict whose entries are attributes too, as those of flax.nnx."""


def as_operand(value: Value) -> Value:
    """Return the value as an operand of arithmetic: a Variable of flax.nnx as its array."""
    return value.as_operand if isinstance(value, Instance) else value


def forget_objects(
    value: Value, thaw: Callable[[Instance], Instance], seen: set[int] | None = None
) -> bool:
    """Forget what an unknown function may have changed of objects in a value; whether there is one of a library."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return False
    seen.add(id(value))
    match value:
        case Instance():
            inside: Iterable[Value] = [*value.attributes.values(), *value.others]
            if value.registered:
                thaw(value).forget_changes()
        case DictValue(entries=entries):
            inside = list(entries.values())
        case ListValue(items=items):
            inside = list(items)
        case tuple():
            inside = value
        case _:
            return False
    found = [forget_objects(one, thaw, seen) for one in inside]
    return any(found) or (isinstance(value, Instance) and value.registered)


@dataclass(frozen=True)
class AnyTree:
    """A tree of unknown structure, all of whose arrays have one layout."""

    leaf: Layout | Unknown


@dataclass(frozen=True)
class Field(AnyTree):
    """Value of a name in such a tree: a field of it, or a method if the tree is an array."""

    name: str = ""


@dataclass(eq=False)
class Frame:
    """The names of one call, of a module or of a class body."""

    names: dict[str, Value]
    outer: Frame | None
    file: FileFacts
    returned: list[Value] = field(default_factory=list)
    yielded: ListValue | None = None
    globals_: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    is_class: bool = False
    maybe_left: int = 0
    """How many `return` statements stand behind conditions that are not known, so far."""

    def release_names(self) -> None:
        """Forget everything: functions and the frames around them know each other."""
        self.names.clear()
        self.returned.clear()
        self.yielded = None

    @property
    def module_frame(self) -> Frame:
        """The frame of the module around it."""
        frame = self
        while frame.outer is not None:
            frame = frame.outer
        return frame


@dataclass(eq=False)
class FunctionValue:
    """A function or lambda of the project, with the names around it and its defaults."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Frame
    defaults: list[Value] = field(default_factory=list)
    keyword_defaults: dict[str, Value] = field(default_factory=dict)
    owner: ClassValue | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return getattr(self.node, "name", "<lambda>")

    @property
    def positional_parameters(self) -> list[str]:
        """The names of the parameters that can be given by position."""
        return [one.arg for one in (*self.node.args.posonlyargs, *self.node.args.args)]


@dataclass(eq=False)
class ClassValue:
    """A class of the project: its own names and its bases."""

    node: ast.ClassDef
    names: dict[str, Value]
    bases: list[Value]
    frame: Frame
    decorators: list[Value] = field(default_factory=list)

    @cached_property
    def ancestor_classes(self) -> tuple[ClassValue, ...]:
        """It and its bases of the project, the nearest first."""
        inherited = (one for base in self.bases if isinstance(base, ClassValue) for one in base.ancestor_classes)
        return tuple(dict.fromkeys((self, *inherited)))

    @cached_property
    def _library_bases(self) -> frozenset[str]:
        return frozenset(base.name for one in self.ancestor_classes for base in one.bases if isinstance(base, Library))

    def library_classes(self) -> frozenset[str]:
        """The classes of libraries that it is made from."""
        return self._library_bases

    def find_attribute(self, name: str) -> Value:
        """An attribute of the class; `MISSING` where neither it nor a base has it."""
        for one in self.ancestor_classes:
            if name in one.names:
                return one.names[name]
        return MISSING


class Lazy:
    """Value bound by an import. The module runs when the name is first read.

    `known` holds the values of names that were read: whoever reads one again rests on what it was made from too.
    """

    def __init__(self, load: Callable[[], Value], known: Memo[Lazy, Value]) -> None:
        self._load = load
        self._known = known

    def load_value(self) -> Value:
        """Return the imported value."""
        if self not in self._known:
            self._known.begin_answer(self, Unknown("imports in a circle"))
            return self._known.make_answer(self, self._load)
        return self._known[self]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True, eq=False)
class Method:
    """A function with its first argument: a method of an object, or of a value that is built in (`call`)."""

    function: Value
    receiver: Value


@dataclass(frozen=True, eq=False)
class Partial:
    """`functools.partial`."""

    function: Value
    args: tuple[Value, ...]
    keywords: dict[str, Value]


@dataclass(frozen=True, eq=False)
class Native:
    """A function that the interpreter itself implements: a method of a list, the result of a transform."""

    name: str
    run: Callable[[Call], Value]


@dataclass(frozen=True, eq=False)
class Transformed(Native):
    """A function transformed at a place. `takes` is the number of its arguments, if specs give it."""

    function: Value = None
    place: Place | None = None
    takes: int | None = None


def function_of(value: Value) -> FunctionValue | None:
    """The function of the project that something runs."""
    while isinstance(value, Partial | Method | Transformed):
        value = value.function
    return value if isinstance(value, FunctionValue) else None


def is_function(value: Value) -> bool:
    """Return whether a value is a function, which is no array anywhere in a tree."""
    return isinstance(value, FunctionValue | Native | Partial | Method)


@dataclass(frozen=True, eq=False)
class ModuleValue:
    """A module of the project."""

    frame: Frame


@dataclass(frozen=True)
class Call:
    """One call of a function that the interpreter or `libraries` knows."""

    interpreter: RunState
    args: tuple[Value, ...]
    keywords: dict[str, Value]
    place: Place
    name: str = ""
    open: bool = False
    """Whether `*` or `**` hides arguments."""

    def argument_at(self, position: int, name: str, default: Value = MISSING) -> Value:
        """An argument by position or name; what is hidden is unknown."""
        if name in self.keywords:
            return self.keywords[name]
        if 0 <= position < len(self.args):
            return self.args[position]
        return Unknown("a star argument") if self.open else default

    def has_argument(self, position: int, name: str) -> bool:
        """Return whether an argument is given, and is not None."""
        return self.argument_at(position, name, None) is not None

    @property
    def function_name(self) -> str:
        """The name of the function without its module: `psum` of "jax.lax.psum"."""
        return self.name.rpartition(".")[2]

    @property
    def function_place(self) -> Place:
        """Where the name of the called function stands."""
        return Place(self.place.file, getattr(self.place.node, "func", self.place.node))

    @property
    def argument_nodes(self) -> list[ast.expr]:
        """The expressions of the positional arguments, as far as they are written one by one."""
        node = self.place.node
        return list(node.args) if isinstance(node, ast.Call) else []


def known_items(value: Value) -> tuple[Value, ...] | None:
    """The items of a tuple, or of a list that holds no others; None of anything else."""
    if isinstance(value, tuple):
        return value
    return tuple(value.items) if isinstance(value, ListValue) and not value.open else None


def tree_children(tree: Value) -> list[tuple[Any, Value]] | None:
    """The parts of a tree by their keys; None of a leaf."""
    match tree:
        case tuple():
            return list(enumerate(tree))
        case ListValue(items=items):
            return list(enumerate(items))
        case DictValue(entries=entries):
            return list(entries.items())
        case Instance() if is_tree(tree):
            return list(tree.tree_children().items())
    return None


def rebuild_tree(tree: Value, parts: Iterable[Value]) -> Value:
    """A tree with other parts, in their order."""
    match tree:
        case ListValue(open=more):
            return ListValue(list(parts), more)
        case DictValue(entries=entries, open=more):
            made = State if isinstance(tree, State) else DictValue
            return made(dict(zip(entries, parts, strict=True)), more)
        case Instance():
            return tree.with_tree(dict(zip(tree.tree_children(), parts, strict=True)))
    return tuple(parts)


def _is_open(tree: Value) -> bool:
    """Return whether a list or dict may hold more than its known parts. As a whole it is an unknown leaf."""
    return isinstance(tree, ListValue | DictValue) and tree.open


def path_step(tree: Value, key: Any) -> str:
    """One step of a path, as jax spells it."""
    return f".{key}" if isinstance(tree, Instance) else f"[{key!r}]"


def tree_leaves(tree: Value) -> Iterator[tuple[str, Value]]:
    """The leaves of a tree with their paths, as jax spells them."""
    yield from ((path, leaf) for path, leaf, _ in spread_prefix(None, tree))


def is_one_copy(tree: Value) -> bool:
    """Return whether a leaf of a tree was taken out of the copies on the devices."""
    leaves = (leaf for _, leaf in tree_leaves(tree))
    return any(isinstance(one, Layout) and one.rows is not None and not one.has_rows for one in leaves)


_TREES = frozenset(
    "typing.NamedTuple equinox.Module flax.struct.PyTreeNode flax.training.train_state.TrainState".split()
)


def is_tree(value: Instance) -> bool:
    """Return whether an object is a pytree node of jax: a NamedTuple, a Module of Equinox, a struct of flax."""
    if value.of is None or value.registered:
        return value.transparent
    made_of = value.library_classes()
    if made_of & _TREES:
        return True
    registered = ("flax.struct.dataclass", "chex.dataclass", "jax.tree_util.register_dataclass",
                  "jax.tree_util.register_pytree_node_class")  # fmt: skip
    return any(
        isinstance(one, Library) and one.name in registered
        for one in (getattr(each, "function", each) for each in value.of.decorators)
    )


def map_tree(
    function: Callable[..., Value], tree: Value, *others: Value, stop: Callable[[Value], bool] | None = None
) -> Value:
    """A tree with a function applied to the leaves of it and of others that have its structure.

    `stop` says of a part that has parts whether it counts as a leaf.
    """
    parts = tree_children(tree)
    if parts is not None and stop is not None and stop(tree):
        return function(tree, *others)
    if parts is not None:
        return rebuild_tree(
            tree,
            [
                map_tree(function, part, *(item_of(one, key) for one in others), stop=stop)
                for key, part in parts
            ],
        )
    if isinstance(tree, AnyTree):
        said = (other.leaf if isinstance(other, AnyTree) else Unknown() for other in others)
        return AnyTree(_layout_or_unknown(function(tree.leaf, *said)))
    return None if tree is None else function(tree, *others)


def _layout_or_unknown(leaf: Value) -> Layout | Unknown:
    leaf = leaf.leaf if isinstance(leaf, AnyTree) else leaf
    return leaf if isinstance(leaf, Layout) else Unknown()


def item_of(tree: Value, key: Any) -> Value:
    """The same part of another tree."""
    match tree:
        case tuple() if isinstance(key, int) and key < len(tree):
            return tree[key]
        case ListValue(items=items) if isinstance(key, int) and key < len(items):
            return items[key]
        case DictValue(entries=entries) if key in entries:
            return entries[key]
        case Instance(attributes=attributes) if key in attributes:
            return attributes[key]
        case AnyTree():
            return tree
    return Unknown()


def spread_prefix(prefix: Value, tree: Value) -> Iterator[tuple[str, Value, Value]]:
    """The leaves of a tree with their paths, each with what a prefix of it (specs, axes, shardings) says of it.

    A prefix that does not fit says Unknown.
    """
    parts = None if _is_open(tree) else tree_children(tree)
    inside = tree_children(prefix) is not None
    if parts is None:
        if tree is not None:
            yield "", tree.leaf if isinstance(tree, AnyTree) else tree, Unknown() if inside else prefix
        return
    for key, part in parts:
        for path, leaf, said in spread_prefix(item_of(prefix, key) if inside else prefix, part):
            yield f"{path_step(tree, key)}{path}", leaf, said


def map_spread(
    function: Callable[[str, Value, Value], Value], prefix: Value, tree: Value, path: str = ""
) -> Value:
    """A tree with a function applied to each leaf, its path, and what a prefix says of it (see `spread_prefix`)."""
    parts = tree_children(tree)
    inside = tree_children(prefix) is not None
    if parts is not None and _is_open(tree):
        return map_tree(lambda leaf: function(path, Unknown(), Unknown() if inside else prefix), tree)
    if parts is not None:
        return rebuild_tree(
            tree,
            [
                map_spread(
                    function, item_of(prefix, key) if inside else prefix, part, f"{path}{path_step(tree, key)}"
                )
                for key, part in parts
            ],
        )
    said = Unknown() if inside else prefix
    if isinstance(tree, AnyTree):
        return AnyTree(_layout_or_unknown(function(path, tree.leaf, said)))
    return None if tree is None else function(path, tree, said)


def join_values(one: Value, two: Value) -> Value:
    """Return the common knowledge about a value that is one of two."""
    if one is two:
        return one
    one, two = one.load_value() if isinstance(one, Lazy) else one, two.load_value() if isinstance(two, Lazy) else two
    if type(one) is type(two) and one == two:
        return one
    if isinstance(one, Layout) and isinstance(two, Layout):
        return _join_layouts(one, two)
    if isinstance(one, AnyTree) and isinstance(two, AnyTree):
        leaf = join_values(one.leaf, two.leaf)
        return AnyTree(leaf if isinstance(leaf, Layout) else Unknown())
    if isinstance(one, PartitionSpec) and isinstance(two, PartitionSpec):
        return _join_specs(one, two)
    if isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
        return tuple(join_values(first, second) for first, second in zip(one, two, strict=True))
    if isinstance(one, DictValue) and isinstance(two, DictValue):
        keys = [key for key in one.entries if key in two.entries]
        more = one.open or two.open or len(keys) < max(len(one.entries), len(two.entries))
        kind = State if isinstance(one, State) and isinstance(two, State) else DictValue
        return kind({key: join_values(one.entries[key], two.entries[key]) for key in keys}, more)
    if isinstance(one, ListValue) and isinstance(two, ListValue) and len(one.items) == len(two.items):
        items = [join_values(first, second) for first, second in zip(one.items, two.items, strict=True)]
        return ListValue(items, one.open or two.open)
    if isinstance(one, Instance) and isinstance(two, Instance) and one.of is two.of:
        names = [name for name in one.attributes if name in two.attributes]
        values = {name: join_values(one.attributes[name], two.attributes[name]) for name in names}
        made = one.with_parts(values) if one.is_like(two) else Instance(one.of, values)
        made.open = True
        made.others = (one, two) if one.registered or two.registered else ()
        return made
    return Unknown("it depends on the way taken")


def _join_specs(one: PartitionSpec, two: PartitionSpec) -> PartitionSpec:
    entries = zip(one.entries, two.entries, strict=False)
    more = one.open or two.open or len(one.entries) != len(two.entries)
    return PartitionSpec(
        tuple(a if a == b else Unknown("it depends on the way taken") for a, b in entries), more
    )


def _join_layouts(one: Layout, two: Layout) -> Layout:
    shape = None
    if one.shape is not None and two.shape is not None and len(one.shape) == len(two.shape):
        shape = tuple(a if a == b else None for a, b in zip(one.shape, two.shape, strict=True))
    names = "dtype mesh spec device committed memory host varying equal reduced figure statistic pieces".split()
    same = {name: getattr(one, name) for name in names if getattr(one, name) == getattr(two, name)}
    if one.figure is not None and two.figure is not None and one.figure.kind == two.figure.kind:
        same["figure"] = one.figure
    if one.rows is not None and two.rows is not None:
        same["rows"] = _join_rows(one.rows, two.rows)
    for each in (one.statistic, two.statistic):  # one of the ways is wrong
        if each is not None and each.is_wrong and each.kind != "means":
            same.setdefault("statistic", each)
    return Layout(
        shape, literal=one.literal and two.literal, differs=one.differs & two.differs,
        exchanged=one.exchanged | two.exchanged, sources=one.sources | two.sources, **same,
    )  # fmt: skip


def _join_rows(one: Rows, two: Rows) -> Rows:
    """The entries on either of two ways; what was taken out of them on one way may be wrong on it."""
    taken = next((each for each in (one, two) if each.kind == "taken"), None)
    return taken or (one if one == two else Rows("any", one.place))
