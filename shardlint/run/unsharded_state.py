"""Large state that is left whole where smaller arrays beside it are split as the batch is (FSDP)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardlint.run.dumps import Compiled
from shardlint.run.findings import RunFinding, bytes_per_device, count_text, describe_leaves, split_axes
from shardlint.run.rules import distinct_compilations
from shardlint.run.run import DATA, Run, is_state
from shardlint.verify.facts import Array
from shardlint.verify.texts import size_text


def find_arrays_left_replicated(each: Sequence[Compiled], run: Run) -> Iterator[RunFinding]:
    """Arrays of a training step that are no smaller than any that is split over the axis of the batch, and lie whole
    though the axis divides one of their dimensions. Where small arrays are left whole, the larger ones are not.
    """
    for one in distinct_compilations(each):
        state = [leaf for leaf in one.arguments if len(leaf.shape) > 1 and is_state(leaf, one)]
        rest = [leaf for leaf in one.arguments if leaf not in state and leaf.shape]
        split = [leaf for leaf in state if leaf.copies < one.partitions and leaf.where not in one.unplaced]
        rows = {name for leaf in rest if leaf.axes for name in leaf.axes[0] if DATA.match(name)}
        for axis in sorted(split_axes(split) & rows):
            size = one.program.mesh.get(axis, 1)
            largest = max((leaf.bytes_whole for leaf in split if axis in split_axes([leaf])), default=0)
            lost = [
                leaf
                for leaf in state
                if run.is_whole(leaf, one) and leaf.bytes_whole >= largest and leaf.where not in one.unplaced
                if any(part % size == 0 for part in leaf.shape) and not run.only_its_state(leaf)
            ]
            # Where the parameters are whole and their moments split, or the other way round, it is a plan.
            lost = [leaf for leaf in lost if run.find_split_like(leaf, one) is None]
            if largest and lost:
                yield _make_finding(one, lost, axis, size)
                return


def _make_finding(compiled: Compiled, lost: list[Array], axis: str, size: int) -> RunFinding:
    first = max(lost, key=lambda leaf: leaf.bytes_whole)
    dim = max((at for at, part in enumerate(first.shape) if part % size == 0), key=lambda at: first.shape[at])
    odd = [at for at, part in enumerate(first.shape) if part % size and part > first.shape[dim]]
    why = f", but dimension {odd[0]} ({first.shape[odd[0]]}) is not" if odd else ""
    spec = ", ".join([*["None"] * dim, repr(axis)])
    return RunFinding(
        "replicated", compiled.function.name, compiled.function.line,
        f"{count_text(lost)} replicated on {compiled.partitions} devices ({size_text(bytes_per_device(lost))} per "
        f"device). Smaller "
        f"arrays and the batch are sharded over {axis!r}. Dimension {dim} ({first.shape[dim]}) of {first.where} "
        f"{first.array} is divisible by {size}{why}",
        describe_leaves(lost), f"shard the divisible dimension: P({spec})", bytes_per_device(lost),
    )  # fmt: skip
