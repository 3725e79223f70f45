"""Contracts of random numbers in what shard_map and pmap run: those for data of each device need a key of each.

A key that is equal along an axis gives all devices along it the same numbers. That repeats them where they meet shards
of an array along that axis, and where an out spec concatenates them. Numbers that broadcast over the shards are the
same on one device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from shardlint.layouts.layout import Draw, Layout
from shardlint.layouts.pieces import OwnShape, UnknownShape
from shardlint.layouts.values import Call, DictValue, Transformed, Value, tree_leaves
from shardlint.model.values import Place

_OFF = {"train": False, "training": False, "is_training": False, "deterministic": True}
# With the key of these, parameters are drawn, which are meant to be equal.
_SHARED = ("params",)


def note_draw(call: Call, key: Layout, shape: Value = None) -> Draw | None:
    """How numbers are drawn by a call in a mapped body; None outside of one."""
    if not call.interpreter.axes:
        return None
    return Draw(_find_origin(call, key), shape.axes if isinstance(shape, OwnShape | UnknownShape) else frozenset())


def _find_origin(call: Call, key: Layout) -> Place:
    """Where a key was copied to all devices; else what draws with it, in the file of the mapped function."""
    run, figure = call.interpreter, key.figure
    if figure is not None and figure.kind == "repeated" and isinstance(figure.place, Place):
        return figure.place
    if run.body is None or call.place.file is run.body.file:
        return call.place
    led = [one for one in run.calls[run.mapped_at or 0 :] if one.file is run.body.file]
    return led[-1] if led else call.place


def keep_draw(call: Call, operands: Sequence[Layout], is_product: bool = False) -> Draw | None:
    """The draw of what is computed of some arrays; records numbers that are equal where another array is split."""
    found = next((one for one in operands if one.drawn is not None and one.differing_axes is not None), None)
    if found is None or found.drawn is None:
        return None
    for other in operands:
        axes = other.differs - (found.differing_axes or frozenset())
        if not axes or other is found:
            continue
        met = frozenset() if is_product or not found.drawn.is_direct else _split_along(found, other, axes)
        if met:
            report_same(call, found.drawn.place, met)
        return None
    return replace(found.drawn, is_direct=False) if is_product else found.drawn


def _split_along(numbers: Layout, other: Layout, axes: frozenset[str]) -> frozenset[str]:
    """The axes that split a dimension of another array which the numbers have too, as far as that is known."""
    assert numbers.drawn is not None
    if numbers.shape is None or other.shape is None:
        return axes & numbers.drawn.shaped
    if len(numbers.shape) != len(other.shape):
        return frozenset()
    sizes = zip(numbers.shape, other.shape, strict=True)
    return frozenset() if any(own == 1 != size for own, size in sizes) else axes


def report_same(call: Call, place: Place, axes: frozenset[str], kind: str = "random.same") -> None:
    """Record numbers that are equal along axes of data that differ."""
    copied = "yes" if _is_copy(call, place) else ""
    call.interpreter.record_violation(kind, place, axes="/".join(sorted(axes)), copied=copied)


def _is_copy(call: Call, place: Place) -> bool:
    function = getattr(call.interpreter.layouts.get(getattr(place.node, "func", place.node)), "name", "")
    return function in ("flax.jax_utils.replicate", "jax.device_put_replicated")


def check_drawn_for(call: Call, key: Layout, arrays: Sequence[Layout]) -> None:
    """Record that entries of arrays are drawn for, which differ along an axis where the key is equal."""
    if key.differing_axes is None or not call.interpreter.axes:
        return
    split = [one.differs for one in arrays if one.shape != () and not one.literal]
    axes = frozenset[str]().union(*split) - key.differing_axes
    if axes:
        report_same(call, _find_origin(call, key), axes)


def check_repeated(call: Call, array: Layout, named: frozenset[str]) -> None:
    """Record a result that is drawn with an equal key along an axis that its out spec concatenates."""
    if array.drawn is None or array.differing_axes is None:
        return
    axes = frozenset(axis for axis in named - array.differing_axes if call.interpreter.axes.get(axis) != 1)
    if axes:
        report_same(call, array.drawn.place, axes, "random.repeated")


def check_handed(call: Call) -> None:
    """Record a key that a model which is not in sight is given as `rngs` beside data that differ where it is equal."""
    rngs = call.keywords.get("rngs")
    if rngs is None or any(call.keywords.get(name) is off for name, off in _OFF.items()):
        return
    method = getattr(getattr(call.place.node, "func", None), "attr", "")
    given = [one for name, one in call.keywords.items() if name != "rngs"]
    axes = frozenset[str]().union(*(one.differs for one in _arrays_of((*call.args, *given))))
    for key in _arrays_of(_keys_drawn_with(call, rngs)) if axes and not method.startswith("init") else ():
        same = axes - key.differing_axes if key.differing_axes is not None else frozenset[str]()
        if same:
            report_same(call, _find_origin(call, key), same, "random.handed")
            return


def _keys_drawn_with(call: Call, rngs: Value) -> list[Value]:
    """The keys with which a model surely draws, where it draws: of dropout only if it is trained."""
    if not isinstance(rngs, DictValue):
        return []
    says = "mutable" in call.keywords or True in [one for one in call.args if isinstance(one, bool)]
    trains = says or any(name in call.keywords for name in _OFF) or _is_differentiated(call)
    unused = _SHARED if trains else (*_SHARED, "dropout")
    return [one for name, one in rngs.entries.items() if name not in unused]


def _is_differentiated(call: Call) -> bool:
    """Return whether the running code is differentiated."""
    made = (call.interpreter.layouts.get(getattr(one.node, "func", one.node)) for one in call.interpreter.calls)
    return any(isinstance(one, Transformed) and "grad" in one.name for one in made)


def _arrays_of(tree: Value) -> Iterator[Layout]:
    return (leaf for _, leaf in tree_leaves(tuple(tree)) if isinstance(leaf, Layout))
