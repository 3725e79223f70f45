"""Arrays with one entry for each device along a first dimension, as pmap returns them and `replicate` makes them.

Facts of pmap, each tried: a result with `out_axes=0` has what each device returned as an entry. It has no truth value
and is no number, unless there is one device alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.layouts.layout import Layout, Rows
from shardlint.layouts.values import Call, Unknown, Value
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import register_function
from shardlint.model.values import Place


def has_copies(array: Layout) -> bool:
    """Return whether the entries of an array are equal on all devices."""
    return array.rows is not None and array.rows.kind in ("equal", "reduced")


def rows_of(result: Layout, axis: str | None, place: Place) -> Rows:
    """Return the kind of the entries of which each device returned one. `axis` is the mapped one, None without a
    name.
    """
    figure, unnamed = result.figure, axis is None
    axis = axis or ""
    reduced = axis in result.reduced
    if unnamed and figure is not None and figure.kind == "unseen" and axis in figure.axes:
        return Rows("differ", place)  # code that is not in sight cannot reduce it either
    if result.differing_axes is not None and axis not in result.differing_axes:
        return Rows("reduced" if reduced else "equal", place)
    return Rows("differ" if axis in result.differs and not reduced else "any", place)


def rows_kept_elementwise(arrays: Sequence[Layout]) -> Rows | None:
    """Return the kind of the entries of an elementwise result: those of the one array with rows, if the others are
    numbers.
    """
    found = [one for one in arrays if one.rows is not None]
    if len(arrays) == 1 or len(found) != 1:
        return found[0].rows if found and all(one.rows == found[0].rows for one in arrays) else None
    alone = found[0].has_rows and not any(one.rank for one in arrays if one is not found[0])
    return replace(found[0].rows, kind="any") if alone and found[0].rows is not None else None


@register_function("shardlint.scalar", "math isnan isfinite isinf")
def read_scalar(call: Call) -> Value:
    """An array that is read as one number, or as a truth value."""
    _record_use(call, layout_as_array(call.argument_at(0, "x")), "rows.scalar", use=call.keywords.get("use", "number"))
    return Unknown("a number")


@register_function("shardlint.shard")
def take_shard(call: Call) -> Value:
    """A shard of an array, or all of them: each has the dimension for the devices."""
    _record_use(call, layout_as_array(call.argument_at(0, "x")), "rows.shard")
    return Unknown("a shard")


def check_first(call: Call, array: Layout) -> None:
    """Record that the first of the entries is taken."""
    _record_use(call, array, "rows.first")


def check_sum(call: Call, array: Layout) -> None:
    """Record that the entries are added up."""
    _record_use(call, array, "rows.summed")


def check_second_device_dimension(call: Call, array: Layout, where: Place) -> None:
    """Record that what has an entry for each device gets another dimension for them."""
    _record_use(replace(call, place=where), array, "rows.again")


def check_saved(call: Call, array: Layout, where: Place) -> None:
    """Record that all the entries are written to a file."""
    _record_use(replace(call, place=where), array, "rows.saved")


def check_entry_contract(call: Call, array: Layout, kind: str, where: Place, path: str = "") -> None:
    """Record a contract of arrays with such entries that one breaks which was taken out of them."""
    if array.rows is not None and not array.has_rows:
        call.interpreter.record_violation(kind, where, **_describe_entries(array.rows), array=path)


def _record_use(call: Call, array: Layout, kind: str, **said: str) -> None:
    if array.rows is not None and array.has_rows:
        call.interpreter.record_violation(kind, call.place, **_describe_entries(array.rows), **said)


def _describe_entries(rows: Rows) -> dict[str, str]:
    """Return the description of entries for a message: their kind, and where they were made."""
    made = rows.place
    where = {"line": str(made.line), "file": made.file.path.name} if isinstance(made, Place) else {}
    return {"entries": rows.kind, **where}
