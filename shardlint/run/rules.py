"""Findings about one function.

Each rule would rather miss a fault than raise a false alarm: what data parallelism needs (parameters on
every device), what only frees memory (a donated batch) and what is small is no finding.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from shardlint.run.dumps import Compiled
from shardlint.run.findings import RunFinding, bytes_per_device, bytes_when_whole, count_text, describe_leaves
from shardlint.run.run import Run, is_state, last_key, root_argument
from shardlint.verify.facts import Array, Line
from shardlint.verify.texts import size_text

_LITTLE = 4


def distinct_compilations(each: Sequence[Compiled]) -> list[Compiled]:
    """Of the compilations of a function those with different arrays, largest first."""
    seen: dict[object, Compiled] = {}
    for one in each:
        seen.setdefault(tuple((leaf.array, leaf.spec, leaf.donated) for leaf in one.program.arrays), one)
    return sorted(seen.values(), key=lambda one: -bytes_per_device(one.program.arrays))


def _has_row_per_device(leaf: Array, compiled: Compiled) -> bool:
    """Return whether each device has a row of its own. Per-device data, such as an error that is fed back, is sharded
    in this way.
    """
    if not leaf.axes or leaf.shape[0] != compiled.partitions:
        return False
    return bool(leaf.axes[0]) and not any(leaf.axes[1:])


def find_replicated(each: Sequence[Compiled], run: Run) -> Iterator[RunFinding]:
    """Arrays whole on every device, in a program that splits their like or the rest of its state."""
    if found := _find_state_returned_whole(each, run):
        yield found
        return
    for one in distinct_compilations(each):
        wholes = [leaf for leaf in one.program.arrays if run.is_whole(leaf, one)]
        state = [leaf for leaf in one.arguments if run.is_large(leaf, one) and is_state(leaf, one)]
        split = bytes_when_whole(
            leaf for leaf in state if leaf.copies < one.partitions and not _has_row_per_device(leaf, one)
        )
        # Moments in one row of numbers are split by a plan of their own, as those of their shapes are (ZeRO-1).
        rows = all(len(leaf.shape) < 2 for leaf in state if leaf.copies < one.partitions)
        mostly_split = split > 0 and not rows and split >= bytes_when_whole(leaf for leaf in state if leaf in wholes)
        # Data-parallel training before another phase, which alone lays out otherwise what is like its arrays.
        likes = [like for leaf in wholes if (like := run.find_split_like(leaf, one))]
        if state and not split and all(like.at > one.at and like.function != one.function for like, _ in likes):
            continue
        told = [
            leaf
            for leaf in wholes
            if not run.only_its_state(leaf)
            if run.find_split_like(leaf, one) or (mostly_split and (leaf.role == "out" or leaf in state))
        ]
        # A result that is an argument too is told of once.
        inside = {leaf.array for leaf in told if leaf.role == "in"}
        told = [leaf for leaf in told if leaf.role == "in" or leaf.array not in inside]
        # A little that is left whole beside much that is split is a choice, as of a small embedding.
        if not told or (
            bytes_when_whole(told) * _LITTLE <= split
            and not any(run.find_split_like(leaf, one) for leaf in told)
        ):
            continue
        like = next((like for leaf in told if (like := run.find_split_like(leaf, one))), None)
        text = ""
        if like is not None:
            where = "" if like[0].function == one.function else f" of {like[0].function.name}"
            text = f"; {like[1].where}{where}, of the same shape, is {like[1].spec}"
        advice = "constrain it, or pass out_shardings to jax.jit"
        yield RunFinding(
            "replicated",
            one.function.name,
            one.function.line,
            f"{count_text(told)} replicated on {one.partitions} devices ({size_text(bytes_per_device(told))} a "
            f"device){text}",
            describe_leaves(told),
            advice if told[0].role == "out" else "place it as that array is",
            bytes_per_device(told),
        )
        return


def _find_state_returned_whole(each: Sequence[Compiled], run: Run) -> RunFinding | None:
    """State that a function takes split and gives back whole, by its `out_shardings` or a constraint."""
    for one in distinct_compilations(each):
        split: dict[tuple[str, str], Array] = {}
        for leaf in one.arguments:
            if leaf.copies < one.partitions and (key := last_key(leaf.where)):
                split.setdefault((leaf.array, key), leaf)
        lost = [leaf for leaf in one.results if run.is_whole(leaf, one)]
        lost = [leaf for leaf in lost if (leaf.array, last_key(leaf.where)) in split and not run.only_its_state(leaf)]
        # What comes whole as well is of another plan.
        came = {(leaf.array, last_key(leaf.where)) for leaf in one.arguments if leaf.copies == one.partitions}
        lost = [leaf for leaf in lost if (leaf.array, last_key(leaf.where)) not in came]
        # Gradients, whose like is the state of another function, are no state that is given back.
        likes = [run.find_split_like(leaf, one) for leaf in lost]
        if any(like is not None and like[0].function != one.function for like in likes):
            continue
        if lost:
            leaf = split[lost[0].array, last_key(lost[0].where)]
            return RunFinding(
                "replicated", one.function.name, one.function.line,
                f"{count_text(lost)} returned replicated on {one.partitions} devices "
                f"({size_text(bytes_per_device(lost))} "
                f"a device): the argument {leaf.where}, of the same shape, is {leaf.spec}",
                describe_leaves(lost), "pass its sharding to jax.jit as out_shardings", bytes_per_device(lost),
            )  # fmt: skip
    return None


def find_unused_donations(each: Sequence[Compiled], run: Run) -> Iterator[RunFinding]:
    """Donated arrays whose buffers a result could have taken, and none did.

    One no result resembles was donated to free its memory; that it does.
    """
    for one in distinct_compilations(each):
        lost = [
            (leaf, why)
            for leaf in one.arguments
            if leaf.donated
            and leaf.aliased is False
            and run.is_large(leaf, one)
            and (why := _reason_buffer_unused(leaf, one))
        ]
        if lost:
            leaves = [leaf for leaf, _ in lost]
            yield RunFinding(
                "donation",
                one.function.name,
                one.function.line,
                f"{count_text(leaves)} donated without effect ({size_text(bytes_per_device(leaves))} a device): "
                f"{lost[0][1]}",
                describe_leaves(leaves),
                "return an array with the shape, dtype and sharding of the argument, or do not donate it",
                bytes_per_device(leaves),
            )
            return


def find_missing_donations(each: Sequence[Compiled], run: Run) -> Iterator[RunFinding]:
    """A function that donates what no result can take, and keeps the larger state that it gives back: the number of
    another argument, as where a `partial` has taken the first.
    """
    for one in distinct_compilations(each):
        donors = [leaf for leaf in one.arguments if leaf.donated]
        if not donors or any(leaf.aliased is not False or _reason_buffer_unused(leaf, one) for leaf in donors):
            continue
        names = {root_argument(leaf) for leaf in donors}
        kept: dict[str, list[Array]] = defaultdict(list)
        for leaf in one.arguments:
            if root_argument(leaf) not in names and run.is_large(leaf, one):
                kept[root_argument(leaf)].append(leaf)
        for name, leaves in kept.items():
            if bytes_per_device(leaves) > bytes_per_device(donors) and all(is_state(leaf, one) for leaf in leaves):
                yield RunFinding(
                    "donation", one.function.name, one.function.line,
                    f"donating {' and '.join(sorted(names))} has no effect, since no result can reuse it: "
                    f"{name} ({size_text(bytes_per_device(leaves))} a device), which the function returns, is "
                    f"not donated",
                    describe_leaves(leaves), f"donate {name}. After a partial, donate_argnums counts only the "
                    f"remaining "
                                   "parameters",
                    bytes_per_device(leaves), code="SL223",
                )  # fmt: skip
                return


def _reason_buffer_unused(leaf: Array, compiled: Compiled) -> str:
    """Why no result took a buffer; empty where none was to take it."""
    free = Counter(result.array for result in compiled.results)
    free.subtract(other.array for other in compiled.arguments if other.aliased)
    if free[leaf.array] > 0:
        result = next(result for result in compiled.results if result.array == leaf.array)
        if result.bytes != leaf.bytes:
            return f"the argument is {leaf.spec}, and {result.where} is {result.spec}"
        return f"{result.where} got a new buffer"
    for result in compiled.results:
        if result.shape == leaf.shape and result.array != leaf.array and free[result.array] > 0:
            return f"{result.where} is {result.array.partition('[')[0]}"
    return ""


def find_rematerialised(each: Sequence[Compiled], run: Run) -> Iterator[RunFinding]:
    """Arrays made whole on every device only to be cut another way."""
    seen: set[Line] = set()
    for one in distinct_compilations(each):
        for warned in one.program.warned:
            if warned.kind == "rematerialised" and warned.bytes >= run.limit and warned.line not in seen:
                seen.add(warned.line)
                yield RunFinding(
                    "rematerialised",
                    one.function.name,
                    warned.line,
                    f"the compiler replicates {warned.message} on every device ({size_text(warned.bytes)}) to "
                    "shard it in another way",
                    advice="add a constraint before or after this operation, so that only one axis moves at a time",
                    bytes=warned.bytes,
                )


def gathered_by_constraint(each: Sequence[Compiled], run: Run) -> Iterator[RunFinding]:
    """Constraints that have an array gathered which is cut again right after."""
    seen: set[Line] = set()
    for one in distinct_compilations(each):
        told = {warned.bytes for warned in one.program.warned if warned.kind == "rematerialised"}
        for warned in one.program.warned:
            if warned.bytes in told or warned.kind != "forced":
                continue
            if warned.bytes >= run.limit and warned.line not in seen:
                seen.add(warned.line)
                yield RunFinding(
                    "gathered",
                    one.function.name,
                    warned.line,
                    f"this constraint gathers {warned.message} on each device ({size_text(warned.bytes)}), and "
                    "the next operation shards it again",
                    advice="name in the constraint the axes that shard it before and after",
                    bytes=warned.bytes,
                )
