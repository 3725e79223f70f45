"""Which of what is known of arrays and messages says something of an error of a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from shardlint.run.raised import buffers, devices, keywords, misfits, pmap_axes
from shardlint.run.raised.explanation import Explanation, first_of_many
from shardlint.run.raised.layouts import describe_arguments, explain_layouts
from shardlint.run.raised.recognition import RecognisedError


def explain_error(error: RecognisedError, beside_finding: bool = False) -> Explanation | None:
    """Return what was wrong with the arguments of the failing call, and their layouts; None if nothing is known.

    Beside a finding, which says what is wrong, these are the arguments alone.
    """
    by = _BY.get(error.kind.name) if error.kind is not None else None
    told = by(error) if by is not None and error.error.user_frames else None
    if told is None or (beside_finding and not told.arrays):
        told = explain_layouts(error, beside_finding)
    elif not told.arrays:
        told = replace(told, arrays=first_of_many(describe_arguments(error.error)))
    # As people write it, whatever the release calls it.
    return None if told is None else replace(told, message=told.message.replace("PartitionSpec(", "P("))


_BY: Mapping[str, Callable[[RecognisedError], Explanation | None]] = {
    "incompatible-devices": devices.explain_incompatible_devices,
    "devices-reshaped": lambda found: devices.explain_mesh_shape(found) or devices.rows_per_device(found),
    "spec-rank": misfits.find_misfit,
    "indivisible": misfits.find_misfit,
    "pmap-axis": pmap_axes.explain_leading_axis,
    "keyword-not-taken": keywords.explain_unknown_keyword,
    "donated-twice": buffers.explain_donated_twice,
}
