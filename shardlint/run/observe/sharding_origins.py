"""Where shardings were decided: the line that made each, and the `tree.map` that made a tree of them.

A sharding is known by its object where a `tree.map` has given it, and else by its mesh and spec where one line alone
made such ones.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .event_sink import silence_errors, write_event
from .frames import is_user, line_of, user_stack
from .program import spec_text

_MOST = 4000
_LEAVES = 400
_KEYS = re.compile(r"\.[^.\[\]]+|\[[^\]]*\]")
_events: list[tuple[Any, Any, list[Any]]] = []
_lines: dict[Any, list[list[Any]]] = {}
_leaves: dict[int, tuple[Any, list[Any]]] = {}
_trees: dict[int, tuple[Any, list[tuple[str, list[Any]]]]] = {}
_results: dict[tuple[str, int], dict[str, list[Any]]] = {}


def install_checks(module: Any) -> None:
    """Watch what jax asks of each `NamedSharding` when it is made: its C++ looks the function up once, at its first."""
    check = module.check_pspec

    @functools.wraps(check)
    def check_and_note(mesh: Any, spec: Any, *args: Any, **kwargs: Any) -> Any:
        _note_sharding(mesh, spec, sys._getframe(1))
        return check(mesh, spec, *args, **kwargs)

    module.check_pspec = check_and_note


def install(jax: Any) -> None:
    """Watch the maps of trees."""
    for module, names in ((jax.tree, ("map", "map_with_path")), (jax.tree_util, ("tree_map", "tree_map_with_path"))):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, _wrap_tree_map(jax, getattr(module, name)))


def _wrap_tree_map(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def map_and_note(*args: Any, **kwargs: Any) -> Any:
        before = len(_events)
        result = function(*args, **kwargs)
        if len(_events) > before or _is_prefix_of(jax, result):
            _note_mapped_tree(jax, result, before, args[1:2])
        return result

    return map_and_note


@silence_errors
def _note_sharding(mesh: Any, spec: Any, frame: Any) -> None:
    if len(_events) < _MOST and is_user(frame.f_code.co_filename):
        line = line_of(frame)
        _events.append((mesh, spec, line))
        known = _lines.setdefault((id(mesh), spec), [])
        if line not in known:
            known.append(line)


def _is_prefix_of(jax: Any, tree: Any) -> bool:
    for _ in range(20):
        if isinstance(tree, dict):
            tree = next(iter(tree.values()), None)
        elif isinstance(tree, (list, tuple)):
            tree = tree[0] if tree else None
        else:
            break
    return isinstance(tree, jax.sharding.Sharding)


@silence_errors
def _note_mapped_tree(jax: Any, result: Any, before: int, given: Any) -> None:
    """Take down a tree of shardings: of each leaf the line that made it, where the map did, those of the map, and the
    shape of what it was made for.
    """
    found: list[tuple[str, list[Any]]] = []
    shardings: list[tuple[str, Any]] = []
    at = before
    lines = user_stack(3)
    for path, one in jax.tree_util.tree_flatten_with_path(result)[0][:_LEAVES]:
        if not isinstance(one, jax.sharding.Sharding):
            return
        inside = []
        for number in range(at, len(_events)):
            mesh, spec, line = _events[number]
            if spec == getattr(one, "spec", None) and mesh is one.mesh:
                inside, at = [line], number + 1
                _leaves[id(one)] = (one, [line, *lines])
                break
        found.append((jax.tree_util.keystr(path), [*inside, *lines]))
        shardings.append((found[-1][0], one))
    if found and len(_trees) < _MOST:
        _trees[id(result)] = (result, found)
        shapes = [list(getattr(one, "shape", None) or ()) for one in jax.tree_util.tree_leaves(given)]
        shapes = shapes if len(shapes) == len(shardings) else [[]] * len(shardings)
        told = [
            [path, spec_text(one), not one.is_fully_replicated, shape]
            for (path, one), shape in zip(shardings, shapes, strict=True)
        ]
        if any(split for _, _, split, _ in told):
            write_event("shardings", lines=found[0][1], leaves=told)


def deciding_lines(one: Any) -> list[Any]:
    """The lines that decided a sharding; none where several may have."""
    known = _leaves.get(id(one))
    if known is not None and known[0] is one:
        return known[1]
    lines = _lines.get((id(getattr(one, "mesh", None)), getattr(one, "spec", None)), [])
    return lines if len(lines) == 1 else []


def shardings_by_path(jax: Any, tree: Any) -> Iterator[tuple[str, list[Any]]]:
    """The shardings of a tree by their paths, with the lines that decided them."""

    def is_known(one: Any) -> bool:
        return id(one) in _trees and _trees[id(one)][0] is one

    for path, one in jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_known)[0][:_LEAVES]:
        name = jax.tree_util.keystr(path)
        if is_known(one):
            yield from ((name + rest, lines) for rest, lines in _trees[id(one)][1])
        elif isinstance(one, jax.sharding.Sharding) and (lines := deciding_lines(one)):
            yield name, lines


def lines_for_path(known: dict[str, list[Any]], path: str) -> list[Any]:
    """The lines for a path in a tree of which the shardings are a prefix."""
    keys = _KEYS.findall(path)
    for count in range(len(keys), -1, -1):
        if (lines := known.get("".join(keys[:count]))) is not None:
            return lines
    return []


@silence_errors
def note_jit(code: Any, shardings: Any) -> None:
    """Remember the `out_shardings` of a jit, by the function it was given."""
    import jax

    if shardings is not None:
        _results[code.co_filename, code.co_firstlineno] = dict(shardings_by_path(jax, shardings))


def lines_for_result(defined: Any, path: str) -> list[Any]:
    """The lines that decided where a result of a jitted function lies."""
    known = _results.get((defined[0], defined[1])) if defined else None
    return lines_for_path(known, path) if known else []
