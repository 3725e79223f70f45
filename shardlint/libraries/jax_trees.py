"""Trees of arrays: jax.tree, jax.tree_util, and the flat dicts of flax."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.layouts.operators import truth_of
from shardlint.layouts.values import (
    AnyTree,
    Call,
    DictValue,
    Instance,
    ListValue,
    Unknown,
    Value,
    known_items,
    map_tree,
    rebuild_tree,
    tree_children,
)
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass


@dataclass(eq=False)
class Structure(Instance):
    """The structure of a tree: the tree itself stands for it."""

    transparent = False
    tree: Value = None


@register_function("jax.tree map", "jax.tree_util tree_map", "jax tree_multimap", "jax.tree_util tree_multimap")
def tree_map(call: Call) -> Value:
    """A function applied to each leaf."""
    if len(call.args) < 2 or call.open:
        return Unknown("a tree")
    given, tree, *others = call.args
    tree = AnyTree(tree) if isinstance(tree, Unknown) else tree
    is_leaf = call.keywords.get("is_leaf")

    def stops_at_leaf(part: Value) -> bool:
        return truth_of(call.interpreter.call_value(is_leaf, (part,), {}, call.place)) is True

    stop = stops_at_leaf if is_leaf is not None else None
    return map_tree(
        lambda *each: call.interpreter.call_value(given, each, {}, call.place), tree, *others, stop=stop
    )


@register_function("jax.tree map_with_path", "jax.tree_util tree_map_with_path")
def map_with_path(call: Call) -> Value:
    """A function of the path and the leaf, applied to each leaf."""
    if len(call.args) != 2 or isinstance(call.args[1], Unknown | AnyTree):
        return AnyTree(Unknown())

    def walk_tree(tree: Value, path: tuple[Value, ...]) -> Value:
        parts = tree_children(tree)
        if parts is not None:
            return rebuild_tree(
                tree, [walk_tree(part, (*path, _path_step(tree, key))) for key, part in parts]
            )
        return None if tree is None else call.interpreter.call_value(call.args[0], (path, tree), {}, call.place)

    return walk_tree(call.args[1], ())


def _is_known(tree: Value) -> bool:
    """Return whether all leaves of a tree are known."""
    if isinstance(tree, Unknown | AnyTree) or getattr(tree, "open", False):
        return False
    return all(_is_known(part) for _, part in tree_children(tree) or ())


def _has_known_leaves(call: Call) -> bool:
    """Return whether all leaves of the first argument are known."""
    return bool(call.args) and not call.has_argument(1, "is_leaf") and _is_known(call.args[0])


def _sorted_parts(tree: Value) -> list[tuple[Value, Value]] | None:
    """The parts of a tree in the order of jax, which sorts the keys of dicts; None of a leaf."""
    parts = tree_children(tree)
    if parts is not None and isinstance(tree, DictValue) and all(isinstance(key, str) for key, _ in parts):
        return sorted(parts, key=lambda part: str(part[0]))
    return parts


def _ordered_leaves(tree: Value, path: tuple[Value, ...]) -> Iterator[tuple[tuple[Value, ...], Value]]:
    """The leaves of a tree with their paths, in the order of jax."""
    parts = _sorted_parts(tree)
    if parts is None:
        if tree is not None:
            yield path, tree
        return
    for key, part in parts:
        yield from _ordered_leaves(part, (*path, _path_step(tree, key)))


def ordered_leaves(tree: Value) -> list[Value]:
    """The leaves of a tree in the order of jax."""
    return [leaf for _, leaf in _ordered_leaves(tree, ())]


def _fill_leaves(tree: Value, values: Iterator[Value]) -> Value:
    """A tree with other leaves, given in the order of jax."""
    parts = _sorted_parts(tree)
    if parts is None:
        return None if tree is None else next(values)
    found = {key: _fill_leaves(part, values) for key, part in parts}
    return rebuild_tree(tree, [found[key] for key, _ in tree_children(tree) or ()])


@register_function("jax.tree leaves", "jax.tree_util tree_leaves", "jax tree_leaves")
def tree_leaves(call: Call) -> Value:
    """The leaves of a tree."""
    return ListValue(ordered_leaves(call.args[0])) if _has_known_leaves(call) else AnyTree(Unknown())


@register_function("jax.tree flatten", "jax.tree_util tree_flatten", "jax tree_flatten")
def tree_flatten(call: Call) -> Value:
    """The leaves of a tree, and its structure."""
    return (tree_leaves(call), tree_structure(call))


@register_function("jax.tree structure", "jax.tree_util tree_structure", "jax tree_structure")
def tree_structure(call: Call) -> Value:
    """The structure of a tree."""
    return Structure(None, tree=call.args[0]) if _has_known_leaves(call) else Unknown("a structure")


@register_function("jax.tree unflatten", "jax.tree_util tree_unflatten", "jax tree_unflatten")
def tree_unflatten(call: Call) -> Value:
    """A tree of a structure, with other leaves."""
    structure, given = call.argument_at(0, "treedef"), known_items(call.argument_at(1, "leaves"))
    if not isinstance(structure, Structure) or given is None:
        return AnyTree(Unknown())
    if len(given) != len(ordered_leaves(structure.tree)):
        return Unknown("a call that raises")
    return _fill_leaves(structure.tree, iter(given))


@register_function(
    "jax.tree leaves_with_path flatten_with_path",
    "jax.tree_util tree_leaves_with_path tree_flatten_with_path",
)
def with_paths(call: Call) -> Value:
    """The leaves of a tree, each with its path."""
    found = (
        ListValue(list(_ordered_leaves(call.args[0], ()))) if _has_known_leaves(call) else AnyTree(Unknown())
    )
    return (found, tree_structure(call)) if "flatten" in call.function_name else found


@register_function("jax.tree reduce", "jax.tree_util tree_reduce", "jax tree_reduce")
def tree_reduce(call: Call) -> Value:
    """A function of two values, applied to one leaf after the other."""
    tree, start = call.argument_at(1, "tree"), call.argument_at(2, "initializer", None)
    if not call.args or not _is_known(tree) or call.open:
        return Unknown("a reduction")
    values = ordered_leaves(tree)
    values = values if start is None else [start, *values]
    if not values:
        return Unknown("a reduction of nothing")
    found = values[0]
    for value in values[1:]:
        found = call.interpreter.call_value(call.args[0], (found, value), {}, call.place)
    return found


@register_function("jax.tree all", "jax.tree_util tree_all", "jax tree_all")
def tree_all(call: Call) -> Value:
    """Return whether all leaves are true."""
    tree = call.argument_at(0, "tree")
    found = [truth_of(one) for one in ordered_leaves(tree)] if _is_known(tree) else [None]
    return Unknown("a truth") if None in found else all(found)


@register_function("flax.traverse_util.flatten_dict", "flax.nnx.traversals.flatten_mapping")
def flatten_dict(call: Call) -> Value:
    """A dict of the leaves of nested dicts, by their paths."""
    tree, separator = call.argument_at(0, "xs"), call.argument_at(3, "sep", None)
    if not isinstance(tree, DictValue) or not _is_known(tree) or call.keywords.keys() - {"sep"}:
        return Unknown("a flat dict")
    flat = dict(_dict_entries(tree, ()))
    if separator is None:
        return DictValue(flat)
    if not isinstance(separator, str) or not all(isinstance(one, str) for path in flat for one in path):
        return Unknown("a flat dict")
    return DictValue({separator.join(path): value for path, value in flat.items()})


def _dict_entries(tree: Value, path: tuple[Value, ...]) -> Iterator[tuple[tuple[Value, ...], Value]]:
    if not isinstance(tree, DictValue):
        yield path, tree
        return
    for key, part in tree.entries.items():
        yield from _dict_entries(part, (*path, key))


@register_function("flax.traverse_util.unflatten_dict", "flax.nnx.traversals.unflatten_mapping")
def unflatten_dict(call: Call) -> Value:
    """Nested dicts of a dict whose keys are paths."""
    flat, separator = call.argument_at(0, "xs"), call.argument_at(1, "sep", None)
    if not isinstance(flat, DictValue) or flat.open or not isinstance(separator, str | None):
        return Unknown("nested dicts")
    found = DictValue()
    for key, value in flat.entries.items():
        path = key.split(separator) if isinstance(separator, str) and isinstance(key, str) else key
        if not isinstance(path, list | tuple) or not path:
            return Unknown("nested dicts")
        inner = found
        for step in path[:-1]:
            inner = inner.entries.setdefault(step, DictValue())
            if not isinstance(inner, DictValue):
                return Unknown("nested dicts")
        inner.entries[path[-1]] = value
    return found


def _path_step(tree: Value, key: Value) -> Value:
    """One step of a path, as an object."""
    kind = "name" if isinstance(tree, Instance) else "key" if isinstance(tree, DictValue) else "idx"
    return Instance(None, {kind: key})


@register_function("jax.tree_util keystr", "jax.tree keystr")
def path_text(call: Call) -> Value:
    """A path as jax spells it."""
    parts = call.argument_at(0, "keys")
    if not isinstance(parts, tuple) or call.keywords:
        return Unknown("a path")
    return "".join(_format_step(one) for one in parts)


def _format_step(part: Value) -> str:
    values = part.attributes if isinstance(part, Instance) else {}
    if "name" in values:
        return f".{values['name']}"
    return f"[{values.get('key', values.get('idx'))!r}]"


@register_function("flax.traverse_util.path_aware_map")
def path_aware_map(call: Call) -> Value:
    """A function of the path and the leaf, applied to each leaf of nested dicts."""
    given, tree = call.argument_at(0, "f"), call.argument_at(1, "nested_dict")
    if not isinstance(tree, DictValue) or tree.open:
        return AnyTree(Unknown())

    def walk_tree(part: Value, path: tuple[Value, ...]) -> Value:
        if isinstance(part, DictValue) and part.entries:
            return rebuild_tree(part, [walk_tree(one, (*path, key)) for key, one in part.entries.items()])
        return call.interpreter.call_value(given, (path, part), {}, call.place)

    return walk_tree(tree, ())


@register_function("flax.core pop", "flax.core.frozen_dict pop")
def pop_entry(call: Call) -> Value:
    """A dict without an entry, and that entry."""
    tree, key = call.argument_at(0, "x"), call.argument_at(1, "key")
    if not isinstance(tree, DictValue) or not isinstance(key, str):
        return (AnyTree(Unknown()), AnyTree(Unknown()))
    rest = DictValue({name: one for name, one in tree.entries.items() if name != key}, tree.open)
    default = call.args[2] if len(call.args) > 2 else Unknown("an entry")
    return (rest, tree.entries.get(key, Unknown("an entry") if tree.open else default))
