"""Arrays with one entry for each device along a first dimension, as pmap returns them and `replicate` makes them.

A fact of pmap, tried: a result with `out_axes=0` has what each device returned as an entry.
"""

from __future__ import annotations

from shardlint.layouts.layout import Layout, Rows
from shardlint.layouts.values import Call
from shardlint.model.values import Place


def has_copies(array: Layout) -> bool:
    """Whether the devices have equal entries of an array."""
    return array.rows is not None and array.rows.kind in ("equal", "reduced")


def rows_of(result: Layout, axis: str | None, place: Place) -> Rows:
    """What the entries are of which each device returned one; `axis` is the mapped one, None without a name."""
    figure, unnamed = result.figure, axis is None
    axis = axis or ""
    reduced = axis in result.reduced
    if unnamed and figure is not None and figure.kind == "unseen" and axis in figure.axes:
        return Rows("differ", place)  # code that is not in sight cannot reduce it either
    if result.may_differ is not None and axis not in result.may_differ:
        return Rows("reduced" if reduced else "equal", place)
    return Rows("differ" if axis in result.differs and not reduced else "any", place)


def check_first(call: Call, array: Layout) -> None:
    """Record that the first of the entries is taken."""
    _record_use(call, array, "rows.first")


def check_sum(call: Call, array: Layout) -> None:
    """Record that the entries are added up."""
    _record_use(call, array, "rows.summed")


def _record_use(call: Call, array: Layout, kind: str) -> None:
    if array.rows is not None and isinstance(array.rows.place, Place):
        made = array.rows.place
        said = {"entries": array.rows.kind, "line": str(made.line), "file": made.file.path.name}
        call.interpreter.violate(kind, call.place, **said)
