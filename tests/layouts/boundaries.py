"""Comparison of predicted layouts with those that `shardlint run` records at jit boundaries."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from shardlint.config.folders import project_root
from shardlint.layouts.interpreter import Interpreter, Modules
from shardlint.layouts.layout import Layout, Size, Symbol
from shardlint.layouts.values import AnyTree, Unknown, Value, tree_children
from shardlint.libraries import FUNCTIONS
from shardlint.model.project import Project
from shardlint.model.values import Place
from shardlint.source.decoding import decode_file
from tests.layouts.compare import differences

Verdict = Literal["known", "partly", "unknown", "wrong"]
Position = tuple[str, int, int, int, int]
"""A call by its file, line, column, last line and last column."""
Path_ = tuple[str, ...]
_COUNTS = {"jax.device_count()": 8, "jax.local_device_count()": 8, "jax.process_count()": 1}
_MANY = "*"
"""The step to what a tree of unknown structure holds, or a list that may hold more."""


@dataclass
class Evaluation:
    """Arguments and result of a call, after it ran on layouts. `chain` are the calls that led to it, innermost
    first.
    """

    chain: tuple[Position, ...]
    args: list[dict[Path_, Value]]
    keywords: dict[str, dict[Path_, Value]]
    opened: bool
    result: dict[Path_, Value] = field(default_factory=dict)


@dataclass
class Leaf:
    """An array at a jit boundary: where it is, what jax has, what is predicted, and how the two compare."""

    place: Position
    path: str
    actual: dict[str, Any]
    predicted: Value
    verdict: Verdict
    why: str = ""


class Recording(Interpreter):
    """A run that keeps what its calls took and gave."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.evaluations: dict[Position, list[Evaluation]] = defaultdict(list)
        self._entered: list[ast.AST] = []

    def call_value(
        self,
        function: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        place: Place,
        opened: bool = False,
    ) -> Value:
        """Call something, and keep what it took and gave."""
        if not isinstance(place.node, ast.Call) or self._entered[-1:] == [place.node]:
            return super().call_value(function, args, keywords, place, opened)
        kept = Evaluation(
            (_position(place), *map(_position, reversed(self.calls))),
            list(map(flatten, args)), {name: flatten(value) for name, value in keywords.items()}, opened,
        )  # fmt: skip
        self._entered.append(place.node)
        try:
            found = super().call_value(function, args, keywords, place, opened)
        finally:
            self._entered.pop()
        kept.result = flatten(found)
        self.evaluations[kept.chain[0]].append(kept)
        return found


def _position(place: Place) -> Position:
    node: Any = place.node
    return str(place.file.path), node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def position_of(call: Sequence[Any]) -> Position:
    """A call that was recorded."""
    file, line, last_line, column, last_column = call
    return file, line, column or 0, last_line or line, last_column or 0


def flatten(value: Value) -> dict[Path_, Value]:
    """The leaves of a value by their paths."""
    return {_unboxed(path): one for path, one in _flat(value, ())}


def _unboxed(path: Path_) -> Path_:
    """A path without the step into a box or Variable."""
    return path[:-1] if path[-1:] == ("value",) else path


def _flat(value: Value, path: Path_) -> Iterator[tuple[Path_, Value]]:
    if isinstance(value, AnyTree):
        yield (*path, _MANY), value.leaf
        return
    parts = tree_children(value)
    if parts is None:
        yield path, value
        return
    if getattr(value, "open", False):
        yield (*path, _MANY), Unknown("there may be more")
    for key, part in parts:
        yield from _flat(part, (*path, _step(key)))


def _step(key: Any) -> str:
    """A step of a path; an attribute and a key of a dict are not told apart."""
    return str(key).removeprefix(".")


def predict(
    path: Path, releases: Mapping[str, tuple[int, ...]]
) -> tuple[dict[Position, list[Evaluation]], dict[Position, list[Evaluation]]]:
    """The calls of a program by their positions, and the same with options as they are by default."""
    project = Project(project_root(path))
    source = decode_file(path, path.read_bytes())
    facts = project.parse_checked(source, path)
    modules = Modules(project, FUNCTIONS, dict(releases))
    run = Recording(modules, facts)
    run.run_file()
    supposed = Recording(modules, facts, run.option_readers)
    if run.option_readers:
        supposed.run_file()
    return run.evaluations, supposed.evaluations


def compare_call(seen: Mapping[str, Any], evaluations: Sequence[Evaluation]) -> list[Leaf]:
    """The arrays of a call that was seen, each with what is predicted of it, by the evaluation that fits best."""
    chain = tuple(map(position_of, seen["stack"]))
    same = [one for one in evaluations if one.chain == chain] or list(evaluations)
    tried = [_compare(seen, chain[0], one) for one in same]
    return min(tried, key=_badness, default=_compare(seen, chain[0], None))


def _badness(leaves: Sequence[Leaf]) -> tuple[int, int]:
    counted = [one.verdict for one in leaves]
    return counted.count("wrong"), -counted.count("known")


def _compare(seen: Mapping[str, Any], place: Position, found: Evaluation | None) -> list[Leaf]:
    taken: dict[Any, dict[Path_, dict[str, Any]]] = defaultdict(dict)
    for (_, name, *path), actual in seen["arguments"]:
        taken[name][tuple(map(_step, path))] = actual
    given = {tuple(map(_step, path)): actual for path, actual in seen["results"]}
    leaves = []
    for name, arrays in taken.items():
        leaves += _compare_tree(place, str(name), arrays, _argument(name, seen, found))
    return leaves + _compare_tree(place, "result", given, None if found is None else found.result)


def _argument(name: Any, seen: Mapping[str, Any], found: Evaluation | None) -> dict[Path_, Value] | None:
    """Return the prediction for an argument. A jitted method takes its object first, which the call does not name."""
    if found is None:
        return None
    if isinstance(name, str):
        return found.keywords.get(name)
    place = name - max(0, seen["count"] - len(found.args)) if not found.opened else name
    return found.args[place] if 0 <= place < len(found.args) else None


def _compare_tree(
    place: Position, name: str, arrays: Mapping[Path_, dict[str, Any]], predicted: dict[Path_, Value] | None
) -> list[Leaf]:
    predicted = {(_MANY,): Unknown("the call is not evaluated")} if predicted is None else predicted
    named = {
        path: one for path, one in predicted.items() if isinstance(one, Layout) and not one.literal and _MANY not in path
    }
    closed = not any(isinstance(one, Unknown) or _MANY in path for path, one in predicted.items())
    by_order = closed and len(named) == len(arrays) and not any(_find(path, predicted) for path in arrays)
    in_order = dict(zip(arrays, named.values(), strict=True)) if by_order else {}
    leaves = []
    for path, actual in arrays.items():
        found = _find(path, predicted)
        if found is None and closed:
            found = in_order.get(path)
        shown = "".join(f"[{step}]" for step in (name, *path))
        verdict, why = _judge(found, actual, closed)
        leaves.append(Leaf(place, shown, actual, found, verdict, why))
    if closed and arrays and not in_order:
        for path in named.keys() - set(map(_unboxed, arrays)):
            shown = "".join(f"[{step}]" for step in (name, *path))
            leaves.append(Leaf(place, shown, {}, named[path], "wrong", "there is no such array"))
    return leaves


def _find(path: Path_, predicted: Mapping[Path_, Value]) -> Value:
    """Return the prediction for a path: for itself, or for the part that it is in."""
    path = _unboxed(path)
    if path in predicted:
        return predicted[path]
    for length in range(len(path), -1, -1):
        for end in ((_MANY,), ()):
            found = predicted.get((*path[:length], *end))
            if found is not None and (end or isinstance(found, Unknown)):
                return found
    return None


def _judge(found: Value, actual: Mapping[str, Any], closed: bool) -> tuple[Verdict, str]:
    if found is None:
        return ("wrong", "no such array is predicted") if closed else ("unknown", "no such path")
    if isinstance(found, Unknown):
        return "unknown", found.why
    if not isinstance(found, Layout):
        return "wrong", f"{type(found).__name__}, not an array"
    found = _with_counts(found)
    wrong = [*differences(found, dict(actual)), *_mesh_differences(found, actual)]
    if wrong:
        return "wrong", "; ".join(wrong)
    if found.shape is None or None in found.shape:
        return ("unknown" if found.shape is None and found.spec is None else "partly"), "its shape"
    if actual.get("devices", 1) > 1 and (found.mesh is None or found.spec is None or None in found.spec):
        return "partly", "its spec"
    return "known", ""


def _with_counts(layout: Layout) -> Layout:
    """A layout with the numbers of devices and processes of the run."""
    mesh = layout.mesh
    return replace(
        layout,
        shape=None if layout.shape is None else tuple(map(_number, layout.shape)),
        mesh=None if mesh is None else replace(mesh, sizes=tuple(map(_number, mesh.sizes))),
    )


def _number(size: Size) -> int | None:
    if isinstance(size, Symbol):
        return _COUNTS[size.name] * size.factor if size.name in _COUNTS else None
    return size


def _mesh_differences(found: Layout, actual: Mapping[str, Any]) -> Iterator[str]:
    if found.mesh is None or actual.get("mesh") is None:
        return
    sizes = dict(zip(found.mesh.names, found.mesh.sizes, strict=True))
    if list(sizes) != list(actual["mesh"]):
        yield f"mesh {list(sizes)}, not {list(actual['mesh'])}"
    elif any(isinstance(size, int) and size != actual["mesh"][name] for name, size in sizes.items()):
        yield f"mesh {sizes}, not {actual['mesh']}"
