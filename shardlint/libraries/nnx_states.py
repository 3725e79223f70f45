"""flax NNX: states as dicts and as flat lists of paths, and what puts parts of them together.

Facts of flax, each tried: `replace_by_pure_dict` puts new Variables into the state, and leaves those of a Module alone.
"""

from __future__ import annotations

from shardlint.layouts.values import (
    AnyTree,
    Call,
    DictValue,
    FunctionValue,
    ListValue,
    Native,
    Partial,
    State,
    Unknown,
    Value,
    known_items,
)
from shardlint.libraries.nnx_modules import take_state
from shardlint.libraries.nnx_objects import (
    HOME,
    Object,
    Variable,
    reachable_objects,
    select_by_filters,
    state_of,
)
from shardlint.libraries.registry import register_function

_ANY = AnyTree(Unknown())


def _convert_to_state(tree: Value) -> Value:
    """Nested dicts as states."""
    if not isinstance(tree, DictValue):
        return tree
    return State({key: _convert_to_state(one) for key, one in tree.entries.items()}, tree.open)


@register_function(f"{HOME} State")
def make_state(call: Call) -> Value:
    """A state of nested dicts."""
    given = call.argument_at(0, "mapping", DictValue())
    return _convert_to_state(given) if isinstance(given, DictValue) else _ANY


def _flatten_state(tree: DictValue, path: tuple[Value, ...]) -> list[Value]:
    found: list[Value] = []
    for key, one in tree.entries.items():
        found += _flatten_state(one, (*path, key)) if isinstance(one, DictValue) else [((*path, key), one)]
    return found


def _is_closed(tree: DictValue) -> bool:
    parts = tree.entries.values()
    return not tree.open and all(_is_closed(one) for one in parts if isinstance(one, DictValue))


@register_function(f"{HOME} to_flat_state")
def to_flat_state(call: Call) -> Value:
    """The Variables of a state, each with its path."""
    tree = call.argument_at(0, "state")
    if isinstance(tree, Object):
        tree = state_of(call.interpreter, tree)
    if not isinstance(tree, DictValue):
        return ListValue([(Unknown("a path"), Unknown("a Variable"))], True)
    return ListValue(_flatten_state(tree, ()), not _is_closed(tree))


@register_function(f"{HOME} from_flat_state", f"{HOME}.State from_flat_path")
def from_flat_state(call: Call) -> Value:
    """A state of Variables by their paths."""
    flat = call.argument_at(0, "flat_state")
    pairs = list(flat.entries.items()) if isinstance(flat, DictValue) and not flat.open else known_items(flat)
    found = State({})
    for pair in pairs or ():
        path = known_items(pair[0]) if isinstance(pair, tuple) and len(pair) == 2 else None
        if not path or not all(isinstance(one, str | int) for one in path):
            return _ANY
        inner: DictValue = found
        for step in path[:-1]:
            below = inner.entries.setdefault(step, State({}))
            if not isinstance(below, DictValue):
                return _ANY
            inner = below
        inner.entries[path[-1]] = pair[1]
    return found if pairs is not None else _ANY


@register_function(f"{HOME} pop")
def pop_variables(call: Call) -> Value:
    """The Variables that filters take, which go from the Module."""
    found = take_state(call, call.argument_at(0, "node"), call.args[1:])
    call.interpreter.forget_changed(call.args[:1])
    return found


@register_function(f"{HOME} iter_graph", f"{HOME}.graph iter_graph")
def iter_graph(call: Call) -> Value:
    """The objects of a graph with their paths."""
    found: list[Value] = [
        (Unknown("a path"), one) for one in reachable_objects(call.interpreter, call.argument_at(0, "node"))
    ]
    return ListValue(found or [(Unknown("a path"), Unknown("an object"))], True)


@register_function(f"{HOME} merge_state", f"{HOME}.statelib merge_state", f"{HOME}.State merge")
def merge_state(call: Call) -> Value:
    """One state of several."""
    if call.open or not all(isinstance(one, DictValue) for one in call.args):
        return _ANY
    found = State({})
    for one in call.args:
        _merge_state(found, one)
    return found


def _merge_state(holder: DictValue, other: DictValue) -> None:
    holder.open = holder.open or other.open
    for key, one in other.entries.items():
        known = holder.entries.get(key)
        if isinstance(one, DictValue):
            inner = State(dict(known.entries), known.open) if isinstance(known, DictValue) else State({})
            holder.entries[key] = inner
            _merge_state(inner, one)
        else:
            holder.entries[key] = one


@register_function(f"{HOME} filter_state split_state", f"{HOME}.statelib filter_state split_state")
def part_of_state(call: Call) -> Value:
    """The parts of a state that filters take, a tuple of several."""
    filters = call.args[1:]
    found = select_by_filters(call.argument_at(0, "state"), filters)
    if found is None:
        return _ANY if len(filters) == 1 else (_ANY,) * len(filters)
    return found[0] if len(filters) == 1 else tuple(found)


@register_function(f"{HOME} replace_by_pure_dict", f"{HOME}.State replace_by_pure_dict")
def replace_values(call: Call) -> Value:
    """Puts the arrays of nested dicts into a state."""
    held, arrays = call.argument_at(0, "state"), call.argument_at(1, "pure_dict")
    if isinstance(held, DictValue) and isinstance(arrays, DictValue) and not arrays.open:
        _replace_arrays(call, held, arrays)
    else:
        call.interpreter.forget_changed((held,))
    return None


def _replace_arrays(call: Call, held: DictValue, arrays: DictValue) -> None:
    held = call.interpreter.changeable_copy(held)
    for key, one in arrays.entries.items():
        known = held.entries.get(key)
        if isinstance(known, DictValue) and isinstance(one, DictValue):
            _replace_arrays(call, known, one)
        else:
            held.entries[key] = known.with_parts({"value": one}) if isinstance(known, Variable) else one


@register_function(f"{HOME} split_rngs")
def split_rngs(call: Call) -> Value:
    """A decorator that leaves the function as it is, whose streams of keys get an axis."""
    given = call.argument_at(0, "f", None)
    if isinstance(given, FunctionValue | Native | Partial):
        return given
    if given is not None:
        call.interpreter.forget_changed((given,))
    return Native(call.name, lambda again: again.argument_at(0, "f"))
