"""Contracts of the results of what shard_map and pmap map: equal where they are declared equal, and only there.

Facts of jax, each tried: without its check, and with `out_axes=None`, the value of the first device is returned; an
axis that an out spec names concatenates the values of all devices, equal or not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.layouts.body_events import BodyEvents
from shardlint.layouts.layout import Layout, Statistic, count_entries
from shardlint.layouts.pieces import name_axes
from shardlint.layouts.values import (
    AnyTree,
    Call,
    DictValue,
    FunctionValue,
    PartitionSpec,
    Unknown,
    Value,
    function_of,
    item_of,
    known_items,
    path_step,
    tree_children,
)
from shardlint.libraries.draws import check_repeated
from shardlint.model.values import Place

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

_REDUCING = frozenset(("psum", "pmean", "pmax", "pmin"))
_ASKING = frozenset(("axis_index", "axis_size"))
_SOFTMAXES = ("softmax", "log_softmax")
_CHOICES = ("top_k", "argmax", "argmin")
# Parts of a state that hold gradients.
_SUMS = re.compile(r"(?i)grad|accum")


def check_results(call: Call, value: Value, specs: Value, results: Value, check: str, where: Place) -> None:
    """Record results of a mapped function that do not fit `out_specs` of shard_map, or `out_axes` of pmap."""
    _check_structure(call, specs, results, where, "specs.results" if check else "axes.results")
    for path, leaf, spec in _leaves_with_prefix(results, specs, ""):
        if isinstance(leaf, Layout):
            check_statistic(call, leaf, bool(check))
        axes = spec.axes_of_entries() if isinstance(spec, PartitionSpec) and not spec.open else None
        if spec is None:
            axes = ()
        elif isinstance(spec, int):
            axes = (tuple(call.interpreter.axes),)
        if isinstance(leaf, Layout) and axes is not None and None not in axes:
            named = frozenset(one for each in axes for one in each or ())
            _check_result(call, value, path, leaf, named, check, where)


def check_statistic(call: Call, array: Layout, is_sharded: bool) -> None:
    """Record that a statistic which is wrong unless it is divided, or added up again, reaches a result."""
    found = array.statistic
    if found is None or not found.is_wrong or not isinstance(found.place, Place):
        return
    if found.kind == "own-sum" and is_sharded:
        return  # it is recorded as a result that differs
    said = {"axes": name_axes(found.axes), "of": found.of, "factor": _device_count_text(call, found.axes)}
    call.interpreter.record_violation(f"reducer.{found.kind}", found.place, *found.calls, **said)


def mark_gradient(loss: Layout, own: frozenset[str], place: Place) -> Statistic | None:
    """Return the statistic of the gradient of a per-device mean, in which it is linear as the mean is."""
    mean = loss.statistic
    if mean is None or mean.kind != "mean" or not mean.axes & own:
        return None
    return replace(mean, axes=mean.axes & own, place=place, along=frozenset())


def report_doubts(run: RunState, events: BodyEvents) -> None:
    """Record what no collective of a body makes right."""
    doubts, shifted = list(events.doubts), set()
    events.doubts.clear()
    ways = {(one.axes, one.violation.said.get("way")) for one in doubts}
    for doubt in () if events.is_open else doubts:
        found, asked = doubt.violation, events.collectives_over(doubt.axes)
        over = asked - _ASKING
        if found.kind == "piece.shifted":
            both = not found.said["way"] or {(doubt.axes, "on"), (doubt.axes, "back")} <= ways
            if both and not over - _REDUCING and (doubt.caller, doubt.axes) not in shifted:
                shifted.add((doubt.caller, doubt.axes))  # `x[:, 1:] - x[:, :-1]` is one mistake
                run.enter_violation(found)
        elif not over and found.said["operation"] in _CHOICES and "axis_index" in asked:
            continue  # what each device chose has its place in the whole array
        elif not over:
            run.enter_violation(found)
        elif found.said["operation"] in _SOFTMAXES and over <= {"psum", "pmean"} and not events.is_weighted:
            run.enter_violation(replace(found, said={**found.said, "later": "yes"}))


def _check_structure(call: Call, specs: Value, results: Value, where: Place, kind: str) -> None:
    """Record `out_specs`, or `out_axes` of pmap, that are no prefix of what the function returns."""
    wanted, found = known_items(specs), known_items(results)
    said = ""
    if wanted is not None and (found is not None or isinstance(results, Layout | DictValue)):
        returned = "a single array" if isinstance(results, Layout) else "a dict"
        returned = returned if found is None else f"a tuple of {len(found)}"
        if found is None or len(found) != len(wanted):
            said = f"it has length {len(wanted)} for {returned}"
    if isinstance(specs, DictValue) and isinstance(results, DictValue) and not (specs.open or results.open):
        missing = specs.entries.keys() ^ results.entries.keys()
        said = f"the keys differ ({', '.join(sorted(map(repr, missing)))})" if missing else ""
    if said:
        call.interpreter.record_violation(kind, where, mismatch=said)


def check_unpacked(call: Call, specs: Value, count: int | None, where: Place) -> None:
    """Record a tuple of `out_specs` of another length than what a call unpacks its result into."""
    wanted = known_items(specs)
    if count is not None and wanted is not None and len(wanted) != count:
        said = f"it has length {len(wanted)}, and line {call.place.line} unpacks {count}"
        call.interpreter.record_violation("specs.results", where, mismatch=said)


def _leaves_with_prefix(tree: Value, prefix: Value, path: str) -> Iterator[tuple[str, Value, Value]]:
    """The leaves of a tree, also of one of which not all parts are known, with what a prefix of it says of each."""
    parts, inside = tree_children(tree), tree_children(prefix) is not None
    if parts is None:
        yield path, tree.leaf if isinstance(tree, AnyTree) else tree, Unknown() if inside else prefix
    for key, part in parts or ():
        yield from _leaves_with_prefix(
            part, item_of(prefix, key) if inside else prefix, path + path_step(tree, key)
        )


def _check_result(
    call: Call, value: Value, path: str, array: Layout, named: frozenset[str], check: str, where: Place
) -> None:
    """Record a result that differs along an axis that its spec leaves out, or is equal along one that it names.

    `check`: "on", "off" or in words; "" of pmap, which has none. `where`: where its spec stands.
    """
    run = call.interpreter
    figure = array.figure
    if figure is not None and figure.kind in ("copies", "counted") and figure.axes and isinstance(figure.place, Place):
        kind = "copies.summed" if figure.kind == "copies" else "term.counted"
        run.record_violation(
            kind, figure.place, axes=name_axes(figure.axes), factor=_device_count_text(call, figure.axes)
        )
    split = frozenset(axis for axis, size in run.axes.items() if size != 1)
    left = (array.differs & split) - named
    said = {"axes": ", ".join(sorted(left)), "result": path, "function": name_of(value)}
    if figure is not None and figure.kind == "gradient" and check != "on" and isinstance(figure.place, Place):
        own = (left if check else array.differs & figure.axes) - {""}
        if _SUMS.search(path):
            return  # gradients that are kept to be reduced later
        if own:
            run.record_violation("gradient.own", figure.place, **{**said, "axes": ", ".join(sorted(own))}, check=check)
        return
    if not check:
        if left:
            run.record_violation("result.first", where, **said)
        return
    if left and check != "on":
        summed = _summed_at(array)
        other = array.figure.axes if summed is not None and array.figure is not None else frozenset[str]()
        returned = find_returned_part(value, path) or where
        if summed is None or not other <= named or summed.file is not returned.file:
            other = frozenset()
        place = summed if other and summed is not None else returned
        said |= {"check": check, "again": ", ".join(sorted(left & array.reduced)), "other": ", ".join(sorted(other))}
        run.record_violation("result.differs", place, **said)
    check_repeated(call, array, named)
    equal = array.reduced & named & split - (array.differing_axes or frozenset())
    if equal and array.differing_axes is not None:
        summed = _summed_at(array)
        beyond = array.figure.axes - named if summed is not None and array.figure is not None else frozenset[str]()
        said |= {"axes": ", ".join(sorted(equal)), "beyond": ", ".join(sorted(beyond))}
        said |= {"by": "gathered" if equal & array.equal else "reduced"}
        run.record_violation("result.repeated", summed if beyond and summed is not None else where, **said)


def _summed_at(array: Layout) -> Place | None:
    """Where a result was summed over devices, if nothing but that makes it equal on them."""
    figure = array.figure
    return figure.place if figure is not None and figure.kind == "sum" and isinstance(figure.place, Place) else None


def _device_count_text(call: Call, axes: frozenset[str]) -> str:
    """How many devices are along axes; "" where that is not known."""
    count = count_entries(tuple(call.interpreter.axes.get(axis) for axis in axes))
    return str(count) if isinstance(count, int) else ""


def reads_parameter(function: FunctionValue | None, place: int) -> bool:
    """Return whether a function reads a positional parameter. If that is not known, the answer is True."""
    if function is None or place >= len(function.positional_parameters):
        return True
    name = function.positional_parameters[place]
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(function.node))


def name_of(value: Value) -> str:
    """The name of the function that something runs; "" of one that has none."""
    function = function_of(value)
    return getattr(function.node, "name", "") if function is not None else ""


def find_returned_part(value: Value, path: str) -> Place | None:
    """Where a function gives a part of its result back, by its path; None where it returns at several places."""
    function = function_of(value)
    if function is None:
        return None
    node, file = function.node, function.frame.file
    if isinstance(node, ast.Lambda):
        returned: list[ast.expr | None] = [node.body]
    else:
        found = file.walk_scope(file.scope(node)).returns
        returned = [one.value if isinstance(one, ast.Return) else None for one in found]
    if len(returned) != 1 or returned[0] is None:
        return None
    return Place(file, _node_at_path(returned[0], path))


def _node_at_path(node: ast.expr, path: str) -> ast.expr:
    step, _, rest = path.removeprefix("[").partition("]")
    match node:
        case ast.Tuple(elts=parts) if step.isdigit() and int(step) < len(parts):
            return _node_at_path(parts[int(step)], rest)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and repr(key.value) == step:
                    return _node_at_path(value, rest)
    return node


def check_summed(call: Call, array: Layout, axes: tuple[str, ...], use: str) -> None:
    """Record a gradient that is summed over an axis, and reduced over it again or returned as one for each device."""
    if array.summed is None or use not in ("psum", "pmean", "out_specs"):
        return
    again, where = array.summed[0].intersection(axes), array.summed[1]
    if again and isinstance(where, Place):
        unseen = "yes" if array.figure is not None and array.figure.kind == "unseen" else ""
        call.interpreter.record_violation(
            "gradient.summed", where, axes=", ".join(sorted(again)), use=use, unseen=unseen
        )
