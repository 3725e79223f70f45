"""Arrays in objects of classes that jax does not know: no check of leaves sees them."""

from __future__ import annotations

import collections
import functools
import inspect
import types
from collections.abc import Mapping
from typing import Any

from shardlint.verify.inside import tree
from shardlint.verify.report import Failure

_DEPTH_MAX, _OBJECTS_MAX = 6, 10_000
_PLAIN = (str, bytes, int, float, complex, type(None), type, types.ModuleType)


def check_opaque(output: Any) -> list[Failure]:
    """A failure for each object in an output that holds arrays."""
    failures = []
    for path, where, leaf in tree.flatten_tree(output):
        if held := held_arrays(leaf):
            failures.append(
                Failure(
                    "opaque",
                    f"{_describe_held_arrays(leaf, held)}: nothing in it was checked",
                    "out" + where,
                    path,
                )
            )
    return failures


def left_where_they_are(args: Any) -> list[str]:
    """A sentence for each object in the arguments that holds arrays, which a fixture's specs do not reach."""
    found = [(where, leaf, held_arrays(leaf)) for _, where, leaf in tree.flatten_tree(args)]
    return [
        f"args{where} {_describe_held_arrays(leaf, held)}: its arrays keep their placement"
        for where, leaf, held in found
        if held
    ]


def _describe_held_arrays(leaf: Any, held: list[str]) -> str:
    name = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
    many = "an array" if len(held) == 1 else f"{len(held)} arrays"
    return (
        f"holds {many} ({', '.join(held[:3])}), but {name} is not a pytree (register it: "
        "jax.tree_util.register_dataclass or register_pytree_node_class)"
    )


def held_arrays(leaf: Any) -> list[str]:
    """The arrays that an object of a class jax does not know holds, by the way to them: `.state.w`, `[0]`.

    Functions, types, modules and what jax and numpy make themselves are not looked into.
    """
    found: list[str] = []
    seen: set[int] = set()
    waiting: list[tuple[str, Any, int]] = [("", leaf, 0)]
    while waiting and len(seen) < _OBJECTS_MAX:
        way, value, depth = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if tree.is_array(value):
            if depth:
                found.append(way)
        elif depth < _DEPTH_MAX:
            waiting += [(way + more, part, depth + 1) for more, part in _parts_of_object(value)]
    return found


def _parts_of_object(value: Any) -> list[tuple[str, Any]]:
    """Return the parts of an object: items of containers, attributes of others, each with the path to it."""
    if isinstance(value, _PLAIN) or inspect.isroutine(value):
        return []
    if isinstance(value, functools.partial):
        return [(".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, list | tuple | set | frozenset | collections.deque):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if type(value).__module__.partition(".")[0] in ("jax", "jaxlib", "numpy"):
        return []
    names = [name for kind in type(value).__mro__ for name in _slot_names(kind)]
    attributes = {name: getattr(value, name) for name in names if hasattr(value, name)}
    attributes |= getattr(value, "__dict__", {})
    return [(f".{name}", part) for name, part in attributes.items()]


def _slot_names(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]
