"""Rows of a result that nothing comes to: of a pipeline whose loop ends before its last rows are through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import program
from .operation_comparison import steps_of
from .region_comparison import Region, step_body

_LEAST = 2


def find_unreached_rows(first: Region, second: Region) -> dict[str, Any] | None:
    """The rows of a result that are the same for all that a region is given, where others are not, and the loop that
    hands pieces from device to device. `second` is the region on other arrays.
    """
    import numpy as np

    loops = [step for step in steps_of(first.body).steps if _is_shift(step.eqn)]
    if len(loops) != 1 or not loops[0].lines:
        return None
    for at, (one, other) in enumerate(zip(first.run_region(), second.run_region(), strict=True)):
        if np.asarray(one).dtype.kind not in "fV" or one.ndim < 2 or one.shape[0] < _LEAST or any(first.out_specs[at]):
            continue
        same = [bool(np.array_equal(np.asarray(a), np.asarray(b))) for a, b in zip(one, other, strict=True)]
        lost = [row for row, each in enumerate(same) if each]
        # Rows within, or at the beginning, may be given by the function itself.
        if lost and not all(same) and lost == [*range(lost[0], len(same))]:
            return {
                "axes": first.sizes, "result": first.names[at], "shape": list(one.shape), "times": None,
                "step": "loop", "taken": "unreached", "collective": False, "devices": first.several.size,
                "lines": loops[0].lines[:4], "inside": [], "rows": _rows_as_text(lost), "count": len(lost),
            }  # fmt: skip
    return None


def shifts_in_a_loop(region: Region) -> bool:
    """Return whether a loop of a region sends shards from device to device."""
    return any(_is_shift(step.eqn) for step in steps_of(region.body).steps)


def _is_shift(eqn: Any) -> bool:
    return eqn.primitive.name in ("scan", "while") and any(
        one.primitive.name == "ppermute" for one, _, _ in program.iterate_operations(step_body(eqn))
    )


def _rows_as_text(rows: Sequence[int]) -> str:
    return f"{rows[0]} to {rows[-1]}" if len(rows) > 1 else str(rows[0])
