"""Findings about the whole program: mesh axes without use, and work on one device of many."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from shardlint.run.dumps import Compiled
from shardlint.run.findings import (
    RunFinding,
    bytes_per_device,
    bytes_when_whole,
    count_text,
    describe_leaves,
    split_axes,
)
from shardlint.run.run import Run, is_state
from shardlint.verify.facts import Array
from shardlint.verify.texts import size_text


def find_nothing_split(run: Run) -> Iterator[RunFinding]:
    """Several devices over which no array is split, so that each does all of the work."""
    for one in run.spread:
        if one.program.collectives or any(leaf.copies < one.partitions for leaf in one.program.arrays):
            return
    for one in run.spread:
        leaves = [leaf for leaf in one.program.arrays if run.is_whole(leaf, one)]
        if leaves and one.function.own:
            yield RunFinding(
                "replicated",
                one.function.name,
                one.function.line,
                f"each of {one.partitions} devices does all the work: the program shards no array over them",
                describe_leaves(leaves),
                "place the arguments with shardings that name mesh axes",
                bytes_per_device(leaves),
            )
            return


def find_unused_axes(run: Run) -> Iterator[RunFinding]:
    """Axes of a mesh over which nothing is split and nothing is moved."""
    by_mesh: dict[tuple[tuple[str, int], ...], list[Compiled]] = defaultdict(list)
    for one in run.spread:
        if one.program.mesh:
            by_mesh[tuple(one.program.mesh.items())].append(one)
    for mesh, each in by_mesh.items():
        leaves = [(one, leaf) for one in each for leaf in one.program.arrays]
        # What no spec describes may use any axis.
        if any(leaf.axes is None and leaf.copies < one.partitions for one, leaf in leaves):
            continue
        used = split_axes(leaf for _, leaf in leaves)
        used |= {name for one in each for moved in one.program.collectives for name in moved.axes}
        free = [name for name, size in mesh if size > 1 and name not in used]
        copies = math.prod(size for name, size in mesh if name in free)
        # An axis that is there for another day, beside a larger one that does the work, is no mistake.
        if copies**2 < math.prod(size for _, size in mesh):
            continue
        large = [(one, leaf) for one, leaf in leaves if run.is_large(leaf, one) and one.function.own]
        if not free or not used or not large:
            continue
        one = large[0][0]
        yield RunFinding(
            "unused-axis",
            one.function.name,
            one.function.line,
            f"{copies} devices hold and compute the same: no array is sharded over mesh axis "
            f"{' and '.join(map(repr, free))}",
            advice=(
                f"name {'it' if len(free) == 1 else 'them'} in a sharding, or make the mesh without "
                f"{'it' if len(free) == 1 else 'them'}"
            ),
            bytes=bytes_per_device(leaf for each, leaf in large if each is one),
        )


def used_in_part(functions: Iterable[Sequence[Compiled]], run: Run) -> Iterator[RunFinding]:
    """State that lies whole along an axis over which the products with it are split: a device uses a part of it."""
    for each in functions:
        for one in each[:1]:
            axes = [name for name in one.program.mesh if name in one.axes_along_weights and one.program.mesh[name] > 1]
            large = [leaf for leaf in one.arguments if len(leaf.shape) > 1 and run.is_large(leaf, one)]
            state = [leaf for leaf in large if is_state(leaf, one)]
            if not state or not one.function.own or any(leaf.axes is None for leaf in one.arguments):
                continue
            used = split_axes(one.arguments)
            free = [name for name in axes if name not in used]
            if not free:
                continue
            copies = math.prod(one.program.mesh[name] for name in free)
            shown = " and ".join(map(repr, free))
            yield RunFinding(
                "replicated", one.function.name, one.function.line,
                f"{count_text(state)} replicated along {shown} ({size_text(bytes_per_device(state))} a device): "
                f"each device uses "
                f"only a part, because the products are sharded over {shown}. {copies} devices hold the same",
                describe_leaves(state[:6]), f"name {shown} in their specs, along the dimension that the products shard",
                bytes_per_device(state),
            )  # fmt: skip


def find_made_on_one_device(
    functions: Iterable[Sequence[Compiled]], run: Run, numpys: frozenset[tuple[str, int, str]] = frozenset()
) -> Iterator[RunFinding]:
    """Large arguments a function splits that were never placed: they were made whole on one device. `numpys` are
    those that came from the host, by the line of their function's `def` and their name: nothing made them.
    """
    for each in functions:
        for one in each:
            leaves = [
                leaf
                for leaf in one.arguments
                if leaf.where in one.unplaced and leaf.copies < one.partitions and run.is_large(leaf, one)
                if (one.function.line.file, one.function.line.line, leaf.where) not in numpys
            ]
            maker, taken = _maker_of_arrays(leaves, one, run)
            # Where nothing was placed and no jit made it, the function is meant to say where things go.
            arrays = [leaf for leaf in one.arguments if leaf.shape]
            if (
                maker is not None
                and not maker.function.own
                and all(leaf.where in one.unplaced for leaf in arrays)
            ):
                continue
            if one.function.own and maker is not None:
                them = "it" if len(taken) == 1 else "them"
                give = f"pass out_shardings to the jit of {maker.function.name}"
                yield RunFinding(
                    "one-device",
                    maker.function.name,
                    maker.function.line,
                    f"{count_text(taken)} created in full on one device ({size_text(bytes_when_whole(taken))}): "
                    f"{one.function.name} takes {them} from there and shards {them}",
                    describe_leaves(taken),
                    f"{give}, or create {them} in a function that has out_shardings" if maker.function.own else
                    f"create {them} under jax.jit with out_shardings, or place {them} with jax.device_put",
                    bytes_when_whole(taken),
                )  # fmt: skip
                break


def _maker_of_arrays(leaves: Sequence[Array], taker: Compiled, run: Run) -> tuple[Compiled | None, list[Array]]:
    """Return who made the most arrays of these types on one device, before `taker`, in its process; and which."""
    best: tuple[int, bool] = (0, False)
    maker: Compiled | None = None
    taken: list[Array] = []
    for one in run.compiled:
        if one is taker or not leaves:
            break
        if one.device_count == 1 and one.process == taker.process:
            made = {leaf.array for leaf in one.results}
            those = [leaf for leaf in leaves if leaf.array in made]
            if those and (len(those), one.function.own) >= best:
                best, maker, taken = (len(those), one.function.own), one, those
    return maker, taken


def find_single_device_functions(functions: Iterable[Sequence[Compiled]], run: Run) -> Iterator[RunFinding]:
    """Functions on one device that take what an earlier one keeps split."""
    for each in functions:
        for one in each:
            if one.device_count > 1 or not one.function.own:
                continue
            taken, other = [], None
            for leaf in one.arguments:
                like = run.find_split_like(leaf) if leaf.bytes_whole >= run.limit else None
                if like is not None and like[0].process == one.process and like[0].at < one.at:
                    taken.append(leaf)
                    other = other or like[0]
            if other is not None:
                yield RunFinding(
                    "one-device",
                    one.function.name,
                    one.function.line,
                    f"this function runs on one of {other.partitions} devices, with full copies of {count_text(taken)} "
                    f"({size_text(bytes_when_whole(taken))}): {other.function.name} keeps such arrays sharded",
                    describe_leaves(taken),
                    "pass the sharded arrays themselves",
                    bytes_when_whole(taken),
                )
                break
