"""Why an output lies as it does, and what to do: put behind a failure's first line."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.verify.facts import Collective
from shardlint.verify.inside import tree
from shardlint.verify.inside.checks import ONE_DEVICE
from shardlint.verify.inside.program import Described
from shardlint.verify.report import Failure
from shardlint.verify.spec import P
from shardlint.verify.texts import collective_text

_HINTS = {
    True: "hint: the compiler chose this sharding: pass out_shardings to jit, or constrain the value where it "
    "is computed",
    False: "hint: the function's own out_shardings set this sharding",
}
_ONE_DEVICE = (
    "hint: it was compiled for one device, because no used argument and nothing in it names the mesh. Pass "
    "out_shardings to jit, or constrain the value where it is computed"
)


def explain_failures(failures: Sequence[Failure], leaves: Sequence[tree.Leaf], described: Described) -> None:
    """Add to each failure about an output's placement the collective that brought it there, and a hint."""
    places = {leaf.path: at for at, leaf in enumerate(leaves)}
    arrays = {one.path: one for one in described.program.arrays if one.role == "out"}
    for failure in failures:
        at = places.get(failure.path)
        if failure.kind not in ("sharding", "replicated") or at is None:
            continue
        lines = [failure.message] if failure.message else [""]
        split = {name for names in arrays[failure.path].axes or () for name in names}
        wanted = set(described.program.mesh)
        if failure.kind == "sharding":
            wanted = set(P.parse_spec(failure.expected).axis_names())
        cause = _causing_collective(described.causes[at], wanted - split)
        if cause is not None:
            lines.append(f"caused by {collective_text(cause, source=True)}")
        if described.program.device_count > 1 and failure.actual == ONE_DEVICE:
            lines.append(_ONE_DEVICE)
        elif described.program.device_count > 1 and at < len(described.chosen):
            lines.append(_HINTS[described.chosen[at]])
        failure.message = "\n".join(lines)


def _causing_collective(collectives: Sequence[Collective], lost: set[str]) -> Collective | None:
    """The nearest collective that runs over an axis the output should be split over, and is not."""
    return next((one for one in collectives if lost & set(one.axes)), None)
