"""flax NNX: the objects, which programs change in place: Variables, Modules, and the states that are taken from them.

Facts of flax, each tried: a state holds the Variables of the Module themselves (since flax 0.11), and `merge` puts
those of the state into the new Module; what jax makes of a tree of them holds others. A Variable counts as its array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shardlint.layouts.layout import Layout
from shardlint.layouts.run_state import RunState
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    Call,
    ClassValue,
    DictValue,
    Instance,
    Library,
    ListValue,
    State,
    Unknown,
    Value,
    as_operand,
    is_tree,
)
from shardlint.model.values import Place
from shardlint.source.lazy import dataclass

VARIABLES = {
    "Variable": (), "Param": ("Variable",), "BatchStat": ("Variable",), "Cache": ("Variable",),
    "Intermediate": ("Variable",), "Perturbation": ("Intermediate", "Variable"), "RngState": ("Variable",),
    "RngKey": ("RngState", "Variable"), "RngCount": ("RngState", "Variable"), "OptState": ("Variable",),
    "OptArray": ("OptState", "Variable"), "OptVariable": ("OptState", "Variable"), "LoRAParam": ("Param", "Variable"),
}  # fmt: skip
"""The classes of Variables, with those that each is made from."""
HOME = "flax.nnx"
Apply = Callable[[Call, "Object"], Value]


@dataclass(eq=False)
class Annotated:
    """A value with metadata, returned by an initializer with metadata."""

    value: Value
    metadata: dict[str, Value]


@dataclass(eq=False)
class Variable(Instance):
    """A Variable: `value` in its attributes, its class of the library, and what its maker said of it."""

    kind: str = "Variable"
    metadata: DictValue | None = None
    placed: bool = False
    """Whether flax sharded it by its names when it was made, or else raised."""
    complete = True
    registered = True

    def library_classes(self) -> frozenset[str]:
        """The classes of libraries that it is of."""
        own = self.of.library_classes() if self.of is not None else frozenset[str]()
        return own | {f"{HOME}.{one}" for one in (self.kind, *VARIABLES[self.kind])}

    def with_parts(self, attributes: dict[str, Value]) -> Variable:
        """A Variable like it of another value."""
        return Variable(
            self.of, attributes, self.open, kind=self.kind, metadata=self.metadata, placed=self.placed
        )

    def is_like(self, other: Instance) -> bool:
        """Return whether both are of one class, with the same metadata."""
        return (
            isinstance(other, Variable) and self.kind == other.kind and self.metadata is other.metadata
        )

    def tree_children(self) -> dict[str, Value]:
        """Its value."""
        return {"value": self.attributes["value"]}

    def computed_attribute(self, name: str) -> Value:
        """Its metadata."""
        known = self.metadata
        if known is None or name == "value":
            return MISSING
        return known.entries.get(name, Unknown("metadata") if known.open else MISSING)

    @property
    def as_operand(self) -> Value:
        """Its value."""
        return self.attributes["value"]

    def forget_changes(self) -> None:
        """Nothing is known of its value any more."""
        self.attributes = {"value": Unknown("a Variable that may have changed")}


@dataclass(eq=False)
class Object(Instance):
    """An object of a Module of the project, or of flax: then `apply` is what a call of it does."""

    kind: str = "Module"
    apply: Apply | None = None
    registered = True

    def library_classes(self) -> frozenset[str]:
        """The classes of libraries that it is of."""
        own = self.of.library_classes() if self.of is not None else frozenset[str]()
        return own | {f"{HOME}.{self.kind}", f"{HOME}.Module"}

    def tree_children(self) -> dict[str, Value]:
        """The attributes that hold arrays, or may do so."""
        return {name: one for name, one in self.attributes.items() if holds_arrays(one)}

    def with_parts(self, attributes: dict[str, Value]) -> Object:
        """The same object with other attributes."""
        return Object(self.of, attributes, self.open, kind=self.kind, apply=self.apply)

    def with_tree(self, parts: dict[str, Value]) -> Object:
        """The same object with other arrays."""
        return self.with_parts({**self.attributes, **parts})

    def is_like(self, other: Instance) -> bool:
        """Return whether both do the same."""
        return isinstance(other, Object) and (self.kind, self.apply) == (other.kind, other.apply)

    def forget_changes(self) -> None:
        """Nothing is known of its parts any more: they may have been replaced."""
        for name in self.tree_children():
            self.attributes[name] = Unknown("an attribute that may have changed")

    def setting_value(self, name: str, default: Value) -> Value:
        """An attribute of a layer."""
        return self.attributes.get(name, default)


def is_object(value: Value) -> bool:
    """Return whether a value is an object that functions change in place."""
    return isinstance(value, Object | Variable)


def holds_arrays(value: Value) -> bool:
    """Return whether a value is or may be a tree with arrays."""
    match value:
        case Variable() | Object() | Unknown() | AnyTree():
            return True
        case Layout():
            return not value.literal
        case ListValue(items=items):
            return any(map(holds_arrays, items))
        case DictValue(entries=entries):
            return any(map(holds_arrays, entries.values()))
        case tuple():
            return any(map(holds_arrays, value))
        case Instance() if is_tree(value):
            return any(map(holds_arrays, value.tree_children().values()))
    return False


def inner_parts(tree: Value) -> list[tuple[Value, Value]] | None:
    """The parts of a graph by their keys in a state; None of a leaf."""
    match tree:
        case Object():
            return list(tree.tree_children().items())
        case ListValue(items=items):
            return [(place, one) for place, one in enumerate(items) if holds_arrays(one)]
        case DictValue(entries=entries):
            return [(key, one) for key, one in entries.items() if holds_arrays(one)]
        case tuple():
            return [(place, one) for place, one in enumerate(tree) if holds_arrays(one)]
        case Instance() if not isinstance(tree, Variable) and is_tree(tree):
            return [(name, one) for name, one in tree.tree_children().items() if holds_arrays(one)]
    return None


def reachable_objects(
    run: RunState, tree: Value, seen: set[int] | None = None
) -> Iterator[Object | Variable]:
    """The objects that a value leads to, each once."""
    seen = set() if seen is None else seen
    if isinstance(tree, Instance):
        tree = run.current_copy(tree)
    if id(tree) in seen:
        return
    seen.add(id(tree))
    if isinstance(tree, Object | Variable):
        yield tree
    for _, part in inner_parts(tree) or ():
        yield from reachable_objects(run, part, seen)


def copy_graph(
    run: RunState, tree: Value, change: Callable[[Variable | Layout], Value], made: dict[int, Value] | None = None
) -> Value:
    """A graph with its Variables changed; what it shares, the copy shares too."""
    made = {} if made is None else made
    if isinstance(tree, Instance):
        tree = run.current_copy(tree)
    if id(tree) in made:
        return made[id(tree)]
    found = tree
    match tree:
        case Variable():
            found = change(tree)
        case Layout() if not tree.literal:
            return change(tree)
        case Object():
            found = tree.with_parts({})
            found.region = run.region
            made[id(tree)] = found
            for name, one in tree.attributes.items():
                found.attributes[name] = copy_graph(run, one, change, made)
        case ListValue(items=items):
            found = ListValue(
                [copy_graph(run, one, change, made) for one in items], tree.open, region=run.region
            )
        case DictValue(entries=entries):
            kind = State if isinstance(tree, State) else DictValue
            found = kind(
                {key: copy_graph(run, one, change, made) for key, one in entries.items()},
                tree.open,
                region=run.region,
            )
        case tuple():
            found = tuple(copy_graph(run, one, change, made) for one in tree)
        case Instance() if is_tree(tree):
            found = tree.with_parts(
                {name: copy_graph(run, one, change, made) for name, one in tree.attributes.items()}
            )
            found.region = run.region
    made[id(tree)] = found
    return found


def state_of(run: RunState, tree: Value) -> Value:
    """The state of a graph: its Variables and arrays, by paths."""
    if isinstance(tree, Instance):
        tree = run.current_copy(tree)
    parts = inner_parts(tree)
    if parts is None:
        if isinstance(tree, Variable) and run.releases.get("flax", (99,)) < (0, 11):
            return tree.with_parts(dict(tree.attributes))
        return tree if isinstance(tree, Variable | Layout) else AnyTree(Unknown())
    return State({key: state_of(run, one) for key, one in parts}, getattr(tree, "open", False)
                 and not isinstance(tree, Object), region=run.region)  # fmt: skip


def filter_fits(leaf: Value, chosen: Value) -> bool | None:
    """Return whether a filter selects a leaf of a state; None if that is not known."""
    if chosen is ... or chosen is True:
        return True
    if chosen is None or chosen is False:
        return False
    if isinstance(chosen, tuple | ListValue):
        items = chosen if isinstance(chosen, tuple) else chosen.items
        found = [filter_fits(leaf, one) for one in items]
        return True if True in found else None if None in found or getattr(chosen, "open", False) else False
    if isinstance(leaf, Layout):
        return False
    if not isinstance(leaf, Variable):
        return None
    if isinstance(chosen, Library) and chosen.name.removeprefix(f"{HOME}.") in VARIABLES:
        return chosen.name in leaf.library_classes()
    if isinstance(chosen, ClassValue):
        return leaf.of is not None and any(one is chosen for one in leaf.of.ancestor_classes)
    return None


def select_by_filters(state: Value, filters: tuple[Value, ...]) -> list[Value] | None:
    """The parts of a state that filters take, each leaf to the first one; None where that is not known."""
    if not isinstance(state, State):
        return None
    found = [State({}, state.open, region=state.region) for _ in filters]
    for key, part in state.entries.items():
        if isinstance(part, State):
            inner = select_by_filters(part, filters)
            if inner is None:
                return None
            for holder, one in zip(found, inner, strict=True):
                if isinstance(one, State) and (one.entries or one.open):
                    holder.entries[key] = one
            continue
        for holder, one in zip(found, filters, strict=True):
            taken = filter_fits(part, one)
            if taken is None and isinstance(part, AnyTree):
                holder.entries[key] = part  # some of it may be there
                continue
            if taken is None:
                return None
            if taken:
                holder.entries[key] = part
                break
    return list(found)


def check_unsharded_replacement(run: RunState, held: Value, value: Value, place: Place) -> None:
    """Record a fresh array that a sharded Variable takes as it is."""
    array = as_operand(value)
    if not isinstance(held, Variable) or not held.placed or not isinstance(array, Layout) or run.traced:
        return
    if array.host:
        run.record_violation("variable.whole", place, where="a numpy array on the host")
    elif array.committed is False and array.mesh is None:
        run.record_violation("variable.whole", place, where="on one device")
    elif array.mesh is not None and array.spec is not None and not any(array.spec) and not array.made:
        run.record_violation("variable.whole", place, where="replicated on every device")


def put_state(run: RunState, target: Value, state: Value, place: Place) -> None:
    """Put the values of a state into the Variables of a graph; forget the graph where they are not known."""
    if isinstance(target, Instance):
        target = run.current_copy(target)
    if isinstance(target, Variable):
        check_unsharded_replacement(run, target, state, place)
        run.write_attribute(target, "value", state.as_operand if isinstance(state, Variable) else state)
        return
    parts = dict(inner_parts(target) or ())
    if not isinstance(state, DictValue) or state.open:
        run.forget_changed((target,))
        return
    for key, one in state.entries.items():
        if isinstance(one, AnyTree | Unknown):
            run.forget_changed((parts.get(key),))
        elif key in parts and isinstance(parts[key], Instance | ListValue | DictValue | tuple):
            put_state(run, parts[key], one, place)
        elif key in parts and isinstance(target, Object):
            run.write_attribute(target, str(key), one)
        else:
            run.forget_changed((target,))


def merge_graphs(run: RunState, template: Value, states: tuple[Value, ...]) -> Value:
    """A new graph like a template, with the Variables of states."""
    given: dict[tuple[Value, ...], Value] = {}
    known = all(isinstance(one, DictValue) and _add_entries(given, (), one) for one in states)
    paths: dict[int, tuple[Value, ...]] = {}
    _record_paths(run, template, (), paths)

    def change_variable(variable: Variable | Layout) -> Value:
        if isinstance(variable, Layout):
            return Layout()
        found = given.get(paths.get(id(variable), (object(),))) if known else None
        if isinstance(found, Variable):
            return found
        value = found if isinstance(found, Layout) else Unknown("a Variable of a state")
        made = variable.with_parts({"value": value})
        made.region = run.region
        return made

    return copy_graph(run, template, change_variable)


def _add_entries(given: dict[tuple[Value, ...], Value], path: tuple[Value, ...], state: DictValue) -> bool:
    for key, one in state.entries.items():
        if isinstance(one, DictValue):
            if not _add_entries(given, (*path, key), one):
                return False
        else:
            given.setdefault((*path, key), one)
    return not state.open


def _record_paths(
    run: RunState, tree: Value, path: tuple[Value, ...], found: dict[int, tuple[Value, ...]]
) -> None:
    if isinstance(tree, Instance):
        tree = run.current_copy(tree)
    if id(tree) in found:
        return
    found[id(tree)] = path
    for key, one in inner_parts(tree) or ():
        _record_paths(run, one, (*path, key), found)


class VariableShardings(State):
    """The result of `nnx.get_named_sharding`: Variables that hold shardings in place of arrays."""
