"""Calls of jitted functions: what donation requires, arrays that a jit made whole, and what a loop passes on.

Facts of jax, each tried: XLA refuses a buffer that is donated twice; a donated buffer is reused for a result of its
shape and type alone; what a jit makes of nothing lies whole on one device, if no argument is on a mesh.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.layouts.layout import Layout, are_surely_different, count_entries
from shardlint.layouts.values import (
    Call,
    DictValue,
    FunctionValue,
    Instance,
    ListValue,
    Value,
    item_of,
    path_step,
    tree_children,
    tree_leaves,
)
from shardlint.libraries.meeting import LATE_CHANGE, is_recent
from shardlint.model.values import Place

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def numbers_of(value: Value) -> tuple[int, ...]:
    """The numbers of an argument that gives one or several."""
    return tuple(one for one in list_items(value) if isinstance(one, int) and one >= 0)


def list_items(value: Value) -> tuple[Value, ...]:
    """The items of a tuple or list, or the value itself."""
    return tuple(value.items) if isinstance(value, ListValue) else value if isinstance(value, tuple) else (value,)


def check_shared(call: Call, donated: tuple[int, ...], value: Value) -> None:
    """Record a tree of arrays that stands twice in donated arguments, whose memory a result takes."""
    results = {(leaf.shape, leaf.dtype) for _, leaf in tree_leaves(value) if isinstance(leaf, Layout)}
    met: dict[int, str] = {}
    for number in donated:
        for path, tree in _shared_objects(call.args[number], "") if number < len(call.args) else ():
            first = met.setdefault(id(tree), path)
            taken = any(
                isinstance(leaf, Layout) and None not in (leaf.shape, leaf.dtype, *(leaf.shape or ()))
                and (leaf.shape, leaf.dtype) in results
                for _, leaf in tree_leaves(tree)
            )  # fmt: skip
            if first is not path and taken:
                call.interpreter.record_violation(
                    "donation.twice", call.place, first=first.lstrip("."), second=path.lstrip(".")
                )
                return


def check_built(call: Call, arrays: Sequence[Layout]) -> None:
    """Record an array that a jit made whole on one device, next to arrays that are split and no larger."""
    split = [one for one in arrays if one.mesh is not None and any(one.spec or ())]
    counts = [count_entries(one.shape) for one in split]
    for one in arrays:
        count = count_entries(one.shape)
        if not isinstance(one.built, Place) or not isinstance(count, int) or not split or one.mesh is not None:
            continue
        if all(isinstance(other, int) and other <= count for other in counts):
            axes = sorted({axis for other in split for found in other.spec or () for axis in found or ()})
            call.interpreter.record_violation("made.whole", one.built, array=str(one), axes="/".join(axes))


def check_alone(call: Call, arrays: Sequence[Layout], value: Value) -> None:
    """Record results like arrays over Explicit axes that a jit makes of no array, where no mesh is in context.

    They are on one device since jax 0.12. Where their type says that they are on the mesh, as before, jax raises.
    """
    run, recent = call.interpreter, is_recent(call, LATE_CHANGE)
    results = [leaf for _, leaf in tree_leaves(value)]
    if run.mesh is not None or not run.mesh_known or not all(isinstance(one, Layout) and one.is_new for one in results):
        return
    for one in arrays:
        split, count = (
            one.is_explicit and any(one.typed_spec or ()),
            one.mesh.device_count if one.mesh is not None else None,
        )
        like = [other for other in results if other.shape == one.shape is not None and (other.is_explicit or recent)]
        if split and like and isinstance(count, int) and count > 1 and recent is not None:
            axes = "/".join(axis for entry in one.typed_spec or () for axis in entry or ())
            kind = "made.off-mesh" if like[0].is_explicit else "made.apart"
            run.record_violation(kind, call.place, array=str(one), axes=axes, devices=str(count))
            return


def check_reused(
    call: Call, value: Value, donated: tuple[int, ...], found: Value, where: Place
) -> None:
    """Record a donated argument whose memory no result can take, next to one that fits a result and is not donated."""
    results = [leaf for _, leaf in tree_leaves(found)]
    if not isinstance(value, FunctionValue) or not all(isinstance(one, Layout) and one.shape for one in results):
        return
    names = value.positional_parameters
    fits: dict[int, bool | None] = {}
    for place, argument in enumerate(call.args[: len(names)]):
        arrays = [leaf for _, leaf in tree_leaves(argument)]
        known = arrays and all(isinstance(one, Layout) and one.shape for one in arrays)
        pairs = [_may_reuse(one, other) for one in arrays for other in results] if known else [None]
        fits[place] = False if set(pairs) == {False} else True if set(pairs) <= {True, False} else None
    meant = [names[place] for place, fit in fits.items() if fit and place not in donated]
    wrong = [names[place] for place, fit in fits.items() if fit is False and place in donated]
    if meant and wrong and not any(fits.get(place) for place in donated):
        call.interpreter.record_violation("donation.unused", where, donated=wrong[0], meant=meant[0])


def _may_reuse(one: Value, other: Value) -> bool | None:
    """Return whether an array fits into the buffer of another; None if that is not known."""
    assert isinstance(one, Layout) and isinstance(other, Layout) and one.shape and other.shape
    if len(one.shape) != len(other.shape) or any(map(are_surely_different, one.shape, other.shape)):
        return False
    if one.dtype is not None and other.dtype is not None and one.dtype != other.dtype:
        return False
    return True if one.dtype == other.dtype is not None and one.shape == other.shape and None not in one.shape else None


def check_carried(call: Call, value: Value) -> None:
    """Record a state that a loop passes on whole, though the jit got it split, or that leaves host memory there."""
    for given, result, name in _carried_arguments(call, value):
        results = dict(tree_leaves(result))
        for path, before in tree_leaves(given):
            after = results.get(path)
            if not isinstance(before, Layout) or not isinstance(after, Layout) or before.shape != after.shape:
                continue
            said = {"array": name + path, "before": str(before)}
            if before.memory == "pinned_host" and after.memory == "device":
                call.interpreter.record_violation("carried.memory", call.place, **said)
                return
            is_split = before.spec is not None and None not in before.spec and any(before.spec)
            if is_split and after.mesh == before.mesh and after.spec is not None and not any(after.spec):
                if None not in after.spec:
                    axes = "/".join(axis for one in before.spec or () for axis in one or ())
                    call.interpreter.record_violation("carried.whole", call.place, axes=axes, **said)
                    return


def _carried_arguments(call: Call, value: Value) -> Iterator[tuple[Value, Value, str]]:
    """The arguments of a call in a loop that its results are assigned to, with these and the name in the text."""
    file, node = call.place.file, call.place.node
    around = list(file.ancestors(node))
    statement = around[0] if around else None
    function = next((place for place, one in enumerate(around) if isinstance(one, _FUNCTIONS)), len(around))
    loop = next((one for one in around[:function] if isinstance(one, ast.For | ast.While)), None)
    if (
        loop is None
        or not isinstance(statement, ast.Assign)
        or statement.value is not node
        or len(statement.targets) > 1
    ):
        return
    (target,) = statement.targets
    targets = list(enumerate(target.elts)) if isinstance(target, ast.Tuple) else [(None, target)]
    # What is bound once more in the turn may be placed there.
    stored = [file.source_text(one) for one in ast.walk(loop) if isinstance(getattr(one, "ctx", None), ast.Store)]
    for argument, given in zip(call.argument_nodes, call.args, strict=False):
        if isinstance(argument, ast.Starred):
            return
        for place, one in targets:
            again = stored.count(file.source_text(one)) > 1
            if (
                isinstance(one, ast.Name | ast.Attribute)
                and file.source_text(one) == file.source_text(argument)
                and not again
            ):
                yield given, value if place is None else item_of(value, place), file.source_text(one)


def _shared_objects(tree: Value, path: str) -> Iterator[tuple[str, Value]]:
    """The objects in a tree that may be in it twice, with their paths."""
    if isinstance(tree, DictValue | ListValue | Instance) and path:
        yield path, tree
    for key, part in tree_children(tree) or ():
        yield from _shared_objects(part, path + path_step(tree, key))
