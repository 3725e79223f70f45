"""Arrays that lie one way and are used another: what that moves, at the line that uses them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from shardlint.run.dumps import Compiled
from shardlint.run.findings import (
    RunFinding,
    bytes_per_device,
    bytes_when_whole,
    count_text,
    describe_leaves,
    split_axes,
)
from shardlint.run.rules import distinct_compilations
from shardlint.run.run import DATA, Run, is_state, root_argument
from shardlint.source.patterns import compile_lazily
from shardlint.verify.facts import Array, Collective, Line, Warned
from shardlint.verify.texts import size_text

_SHARE = 16
# What is gathered inside counts from this share of the data that it is computed of.
_INSIDE = 4
# What is gathered of rows counts from this share of all that the program moves, and from what outweighs its start.
_OF_MOVED = 8
_START = 2**14
_TREE = 4
# Along these what lies before or behind is needed.
_ORDERED = compile_lazily(r"(?i)(sp|cp|seq|sequence|context|ctx|time|space|spatial|rows|cols)(_|\b|\d)")


def find_layout_mistakes(each: Sequence[Compiled], run: Run) -> Iterator[RunFinding]:
    """Yield the findings in the compilations of a function."""
    told: set[tuple[str, Line]] = set()
    for one in distinct_compilations(each):
        least = _least_moved_bytes(one, run)
        state = (
            *_find_replicated_updates(one, least),
            *_put_into_whole(one),
            *_find_misaligned_writes(one, least),
            *_find_flattened_state(one, least),
        )
        for found in (
            *_find_moved(one, least),
            *_find_gathered_choices(one, run.limit),
            *_find_stored_only_axes(one, least),
            *state,
            *_find_unsplit_rows(one, least),
        ):
            if (found.kind, found.line) not in told:
                told.add((found.kind, found.line))
                yield found


def _find_moved(compiled: Compiled, least: int) -> Iterator[RunFinding]:
    yield from _find_reordered(compiled, least)
    # Of what happens at a line the largest is told of.
    for warned in sorted(compiled.program.warned, key=lambda warned: -warned.bytes):
        if warned.bytes < least or not warned.line.file:
            continue
        shown, axes, of = (*warned.message.split("|"), "", "")[:3]
        if warned.kind == "exchanged" and not of and _are_axes_of_batch_and_state(axes, compiled):
            continue
        if warned.kind == "exchanged-at-lookup" and _named_axes(axes) & _shared_axes(compiled):
            continue  # rows of a table that is split along the axis of the batch, too, are brought to the batch
        apart = warned.kind in ("exchanged-at-product", "exchanged-at-lookup")
        if warned.kind == "exchanged" or (apart and not _is_moved_to_batch_axes(of, axes, compiled)):
            along = f" along {axes}" if axes else ""
            yield RunFinding(
                "exchanged", compiled.function.name, warned.line,
                f"devices exchange {size_text(warned.bytes)} at each call: this uses {shown} with another "
                f"sharding than it has{along}",
                advice="shard both operands along one dimension that the product or slice does not change: heads, not "
                "the features of a head; or give the sliced parts a dimension of their own",
                bytes=warned.bytes,
                see=(("function", compiled.function.line),),
            )  # fmt: skip
        elif warned.kind == "row":
            yield RunFinding(
                "scanned", compiled.function.name, warned.line,
                f"all of {shown} is gathered: each round of this loop takes a row, and the rows are sharded "
                f"over {axes}",
                advice="leave the loop dimension unsharded, and shard another: for microbatches reshape to "
                "(batch // n, n, ...) and swap the first two", bytes=warned.bytes,
            )  # fmt: skip
        elif warned.kind in ("gathered-result", "gathered-inside"):
            result = warned.kind == "gathered-result"
            found = _find_gathered_result(compiled, warned, axes) if result else _find_gathered_rows(compiled, warned)
            if found is not None:
                yield found


def _find_gathered_choices(compiled: Compiled, least: int) -> Iterator[RunFinding]:
    """Arrays that are gathered to choose a few numbers of them, if that is much of what the program moves."""
    least = max(least, _moved_bytes(compiled) // _INSIDE)
    for warned in compiled.program.warned:
        if warned.kind == "chosen-from" and warned.bytes >= least and warned.line.file:
            shown, axes, choice = warned.message.split("|")
            yield RunFinding(
                "gathered", compiled.function.name, warned.line,
                f"all of {shown} is gathered on every device at each call ({size_text(warned.bytes)}): {choice} "
                f"chooses along a dimension that is sharded over {axes}",
                advice=f"call {choice} on each device's shard, and then once more on what the shards gave: reshape "
                "the dimension to (shards, size // shards), or use shard_map", bytes=warned.bytes,
                see=(("function", compiled.function.line),),
            )  # fmt: skip


def _find_reordered(compiled: Compiled, least: int) -> Iterator[RunFinding]:
    """Arguments that are split as they are used, but for which device has which part."""
    for warned in compiled.program.warned:
        where, _, axes = warned.message.partition("|")
        leaf = next((leaf for leaf in compiled.arguments if leaf.where == where), None)
        if warned.kind != "reordered" or leaf is None or leaf.bytes_whole < least or not warned.line.file:
            continue
        # Along an axis that does not split it, the compiler moves it by a choice of its own.
        if not set(axes.replace("'", "").split(" and ")) <= split_axes([leaf]):
            continue
        yield RunFinding(
            "exchanged", compiled.function.name, warned.line,
            f"all shards of {where} are sent along {axes} at each call ({size_text(warned.bytes)} a device): "
            f"the function uses it with its shards in another device order than {leaf.spec}",
            describe_leaves([leaf]), "write the axes of one dimension in the same order in all shardings",
            bytes=warned.bytes, see=(("function", compiled.function.line),),
        )  # fmt: skip


def _is_moved_to_batch_axes(of: str, axes: str, compiled: Compiled) -> bool:
    """Return whether the moved array is no state, and the axes shard the function's arguments besides its state."""
    kept = {(leaf.array, leaf.spec) for leaf in compiled.results}
    if any(leaf.where == of and (leaf.array, leaf.spec) in kept for leaf in compiled.arguments):
        return False
    taken = [leaf for leaf in compiled.arguments if not is_state(leaf, compiled)]
    if any(leaf.axes is None and leaf.copies < compiled.partitions for leaf in taken):
        return True
    batch = split_axes(taken)
    # A batch that comes whole is split inside, by a constraint: over which axes is not known here.
    return not batch or _named_axes(axes) <= batch


def _are_axes_of_batch_and_state(axes: str, compiled: Compiled) -> bool:
    """Return whether axes shard both the batch and the state (FSDP). The array that the compiler moves to the weights,
    in place of gathering those, is resharded.
    """
    return bool(axes) and _named_axes(axes) <= _shared_axes(compiled)


def _shared_axes(compiled: Compiled) -> set[str]:
    """The axes that split the batch and the state."""
    state = [leaf for leaf in compiled.arguments if is_state(leaf, compiled)]
    if not state:  # an evaluation gives none back: what it works with is a tree of many
        roots = Counter(map(root_argument, compiled.arguments))
        state = [leaf for leaf in compiled.arguments if roots[root_argument(leaf)] >= _TREE]
    batch = [leaf for leaf in compiled.arguments if leaf not in state]
    return split_axes(state) & split_axes(batch)


def _named_axes(axes: str) -> set[str]:
    """The axes that a text names: `'data' and 'model'`."""
    return set(axes.replace("'", "").split(" and "))


def _least_moved_bytes(compiled: Compiled, run: Run) -> int:
    """The least that is worth a word of what a function moves: beside the largest array that it takes or gives."""
    largest = max((leaf.bytes_whole for leaf in compiled.program.arrays), default=0)
    return max(run.limit, largest // _SHARE)


def _moved_bytes(compiled: Compiled) -> int:
    """Return what a call of a function moves."""
    return sum(each.moved_bytes for each in compiled.program.collectives)


def _find_gathered_result(compiled: Compiled, warned: Warned, axes: str) -> RunFinding | None:
    """A result that is gathered, unless it is state: that is gathered where its optimizer is split by design."""
    number = int(warned.message.partition("|")[0])
    leaf = compiled.results[number] if number < len(compiled.results) else None
    if leaf is None or leaf.copies < 2 or any(leaf.array == other.array for other in compiled.arguments):
        return None
    if leaf.copies != compiled.partitions and not all(DATA.match(name) for name in _named_axes(axes)):
        return None
    whole = f"replicated on {compiled.partitions} devices" if leaf.copies == compiled.partitions else (
        "each row on "
        "several devices"
    )
    return RunFinding(
        "gathered", compiled.function.name, warned.line,
        f"{leaf.where} {leaf.array} is gathered for the caller ({whole}, {size_text(leaf.bytes)}): it is "
        f"computed sharded over {axes}",
        describe_leaves([leaf]), f"name {axes} in the out_shardings of this result, or in the constraint on it",
        leaf.bytes, see=(("function", compiled.function.line),),
    )  # fmt: skip


def _find_gathered_rows(compiled: Compiled, warned: Warned) -> RunFinding | None:
    """The data, or what is computed of its rows, gathered inside: along axes that split those rows and nothing else.

    Where they split weights too, or dimensions of several sizes, gathering is how they are meant to be used.
    """
    if warned.bytes < max(_START, _moved_bytes(compiled) // _OF_MOVED):
        return None
    array, axes, along, of = warned.message.split("|")
    names = _named_axes(axes)
    taken = [leaf for leaf in compiled.arguments if leaf.axes is None or names & set(sum(leaf.axes, ()))]
    if not taken or any(leaf.axes is None or is_state(leaf, compiled) for leaf in taken):
        return None
    lengths = {
        leaf.shape[at] for leaf in taken for at, entry in enumerate(leaf.axes or ()) if names & set(entry)
    }
    largest = max(leaf.bytes_whole for leaf in taken)
    if len(lengths) != 1 or str(min(lengths)) not in along.split(",") or warned.bytes * _INSIDE < largest:
        return None
    if any(_ORDERED.match(name) for name in names):
        return None
    rows = max(taken, key=lambda leaf: leaf.bytes_whole)
    how = "is sharded" if of else "was computed sharded"
    return RunFinding(
        "gathered", compiled.function.name, warned.line,
        f"{f'{of} ' if of else ''}{array} is gathered on every device at each call "
        f"({size_text(warned.bytes)}): it {how} over {axes} along a dimension of size "
        f"{min(lengths)}{'' if of else f', like {rows.where}'}",
        describe_leaves([rows]),
        "compute on each device's shard: keep the sharded dimension first in reshapes, select within each "
        "shard before selecting among shards, or constrain the result",
        warned.bytes, see=(("function", compiled.function.line),), over=tuple(sorted(names)),
    )  # fmt: skip


def _find_stored_only_axes(compiled: Compiled, least: int) -> Iterator[RunFinding]:
    """Arguments gathered over an axis that splits nothing of what the function works on."""
    gathers: dict[str, list[tuple[Collective, Array]]] = defaultdict(list)
    leaves = {leaf.where: leaf for leaf in compiled.arguments}
    for moved in compiled.program.collectives:
        leaf = leaves.get(moved.of)
        if moved.kind == "all-gather" and leaf is not None and len(leaf.shape) > 1:
            for axis in moved.axes:
                gathers[axis].append((moved, leaf))
    for axis, found in gathers.items():
        gathered = list({leaf.where: leaf for _, leaf in found}.values())
        types = {leaf.array for leaf in gathered}
        rest = [leaf for leaf in compiled.arguments if leaf.array not in types and leaf.shape]
        # A batch that comes whole may be split inside, by a constraint.
        if compiled.axes_of_products is not None and axis in compiled.axes_of_products:
            continue
        # What is not written down may be split over it.
        if (
            any(leaf.axes is None or axis in sum(leaf.axes, ()) for leaf in rest)
            or compiled.program.mesh.get(axis, 1) < 2
        ):
            continue
        total = bytes_when_whole(gathered)
        held = bytes_when_whole(leaf for leaf in compiled.arguments if leaf.axes and axis in sum(leaf.axes, ()))
        batch = [leaf for leaf in rest if not leaf.donated and not is_state(leaf, compiled)]
        if total < least or not batch or not held:
            continue
        most = max(found, key=lambda each: each[0].moved_bytes)[0].line
        place = next((moved.line for moved, _ in found if moved.line.file), most)
        largest = max(batch, key=lambda leaf: leaf.bytes_whole)
        yield RunFinding(
            "gathered", compiled.function.name, place,
            f"devices along {axis!r} do the same work: {count_text(gathered)} sharded over {axis!r} "
            f"{'is' if len(gathered) == 1 else 'are'} gathered at each call ({size_text(total)}), and no other "
            f"argument is sharded over it. {largest.where} {largest.array} is {largest.spec}",
            describe_leaves(gathered[:6]),
            f"shard the batch over {axis!r} too, P((..., {axis!r})), and constrain the intermediate values in "
            "the same way", total,
            see=(("function", compiled.function.line),),
        )  # fmt: skip


def _find_replicated_updates(compiled: Compiled, least: int) -> Iterator[RunFinding]:
    """State that lies whole and is updated a row at a time with what is split, as a cache is: all of it is gathered."""
    for leaf in compiled.arguments:
        if leaf.copies != compiled.partitions or leaf.bytes_whole < least or not is_state(leaf, compiled):
            continue
        mine = [warned for warned in compiled.program.warned if warned.kind in ("updated", "updated-back")]
        mine = [warned for warned in mine if warned.message.partition("|")[0] == leaf.array and warned.line.file]
        if mine:
            most = max(mine, key=lambda warned: warned.bytes)
            axes = most.message.partition("|")[2]
            yield RunFinding(
                "gathered", compiled.function.name, most.line,
                f"each call gathers the values written into {leaf.where} {leaf.array} ({size_text(most.bytes)}): the "
                f"array is replicated on {compiled.partitions} devices, and the values are sharded over {axes}",
                describe_leaves([leaf]), "shard the array like the values, where it is created and in "
                "out_shardings", most.bytes,
                see=(("function", compiled.function.line),),
            )  # fmt: skip
            return


def _put_into_whole(compiled: Compiled) -> Iterator[RunFinding]:
    """Large state that lies whole, and into which is written what was computed split, as into a cache of keys."""
    largest = max((leaf.bytes_whole for leaf in compiled.arguments), default=0)
    whole = {
        leaf.where: leaf for leaf in compiled.arguments
        if leaf.copies == compiled.partitions > 1 and leaf.bytes_whole * _INSIDE >= largest and is_state(leaf, compiled)
    }  # fmt: skip
    lost: dict[str, tuple[Array, Warned]] = {}
    for warned in compiled.program.warned:
        where = warned.message.partition("|")[0]
        if warned.kind == "put-into" and where in whole and warned.line.file:
            lost.setdefault(where, (whole[where], warned))
    if lost:
        leaves = [leaf for leaf, _ in lost.values()]
        warned = next(iter(lost.values()))[1]
        array, axes = warned.message.split("|")[1:3]
        yield RunFinding(
            "replicated", compiled.function.name, warned.line,
            f"{count_text(leaves)} replicated on {compiled.partitions} devices ({size_text(bytes_per_device(leaves))} "
            f"a device): the values written here are sharded over {axes} and gathered first ({array})",
            describe_leaves(leaves[:6]), f"shard {'it' if len(leaves) == 1 else 'them'} over {axes} like these values, "
                               f"where {'it is' if len(leaves) == 1 else 'they are'} created",
            bytes_per_device(leaves), see=(("function", compiled.function.line),),
        )  # fmt: skip


def _find_misaligned_writes(compiled: Compiled, least: int) -> Iterator[RunFinding]:
    """State that lies split and of which a part is written that the split does not follow: all of it is gathered."""
    for warned in compiled.program.warned:
        shown, _, axes = warned.message.partition("|")
        if warned.kind != "updated" or warned.bytes < least or not warned.line.file:
            continue
        leaf = next((leaf for leaf in compiled.arguments if leaf.array == shown and is_state(leaf, compiled)), None)
        if leaf is not None and leaf.axes and _named_axes(axes) & set(sum(leaf.axes, ())):
            at = next(at for at, names in enumerate(leaf.axes) if _named_axes(axes) & set(names))
            yield RunFinding(
                "gathered", compiled.function.name, warned.line,
                f"all of {shown} is gathered on every device ({size_text(warned.bytes)} at each call): this "
                f"writes a part of it, and {leaf.where}, of this shape, is sharded over {axes} along dimension {at}",
                describe_leaves([leaf]),
                f"write jnp.where(jnp.arange({leaf.shape[at]}) < k, new, old), the arange along dimension {at}; "
                "or write the part inside shard_map", warned.bytes,
                see=(("function", compiled.function.line),),
            )  # fmt: skip


def _find_flattened_state(compiled: Compiled, least: int) -> Iterator[RunFinding]:
    """Arrays of the state's sizes that are made one row of numbers: each is gathered whole for that."""
    lines: dict[Line, list[Warned]] = defaultdict(list)
    for warned in compiled.program.warned:
        if warned.kind == "flattened" and warned.line.file:
            lines[warned.line].append(warned)
    for place, each in lines.items():
        axes = _named_axes(each[0].message.partition("|")[2])
        leaves = [leaf for leaf in compiled.arguments if len(leaf.shape) > 1 and is_state(leaf, compiled)]
        leaves = [leaf for leaf in leaves if leaf.axes and axes & set(sum(leaf.axes, ()))]
        sizes = {f"[{math.prod(leaf.shape)}]" for leaf in leaves}
        lost = [warned for warned in each if any(size in warned.message for size in sizes)]
        total = sum(warned.bytes for warned in lost)
        if lost and total >= max(least, max(leaf.bytes_whole for leaf in leaves)):
            over = " and ".join(map(repr, sorted(axes)))
            yield RunFinding(
                "gathered", compiled.function.name, place,
                f"{len(lost)} array{' is' if len(lost) == 1 else 's are'} gathered on every device "
                f"({size_text(total)} at each call): this call flattens arrays that are sharded over {over} into one "
                f"array, as {leaves[0].where} {leaves[0].array} is",
                describe_leaves(leaves[:6]),
                "reduce each array by itself with jax.tree.map and add up the results, as optax.global_norm(tree) does",
                total, see=(("function", compiled.function.line),),
            )  # fmt: skip


def _find_unsplit_rows(compiled: Compiled, least: int) -> Iterator[RunFinding]:
    """A training step whose batch has its rows whole, and another dimension split over an axis that is called `data` or
    the like: what works along that dimension is gathered. Where nothing is (time before batch), it is meant.
    """
    state = [leaf for leaf in compiled.arguments if is_state(leaf, compiled)]
    rest = [leaf for leaf in compiled.arguments if leaf not in state and len(leaf.shape) > 1]
    if not state or not rest or any(leaf.axes is None or leaf.axes[0] for leaf in rest):
        return
    split = split_axes(rest)
    gathers = [
        moved for moved in compiled.program.collectives
        if moved.kind == "all-gather" and not moved.of and moved.line.file and set(moved.axes) & split
    ]  # fmt: skip
    total = sum(moved.moved_bytes for moved in gathers)
    if not split or not all(DATA.match(name) for name in split) or total < least:
        return
    parts = math.prod(compiled.program.mesh.get(name, 1) for name in split)
    lost = [leaf for leaf in rest if any(leaf.axes or ()) and leaf.shape[0] % parts == 0]
    if lost:
        most = max(gathers, key=lambda moved: moved.moved_bytes).line
        yield RunFinding(
            "exchanged", compiled.function.name, most,
            f"results along the rows are gathered at each call ({size_text(total)}): each device has a part of every "
            f"row of {lost[0].where} {lost[0].array} ({lost[0].spec})",
            describe_leaves(lost), f"shard the first dimension over {' and '.join(map(repr, sorted(split)))}", total,
            see=(("function", compiled.function.line),),
        )  # fmt: skip
