"""Functions compiled more than once, and what changed."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from shardlint.run.dumps import Compiled
from shardlint.run.findings import RunFinding
from shardlint.run.run import Run, is_state
from shardlint.verify.facts import Line

# A finding only from so many programs on, and only where it costs something or moves large arrays: every program
# has scalars that come from the host once, and tests call jax.jit again and again. The cost is that of the program,
# and not of the machine: about ten thousand operations are compiled in a second.
_CHURN = 4
_AGAIN = 3
_COSTLY = 10_000
_WORTH = 500
_SUBSTANTIAL = 100
_CHOSEN = 8
# What jax calls the axis of a pmap that is not given a name (0.8 and later).
_UNNAMED = "_internal_pmap_axis_name"
_AHEAD = " not placed -> P("


def find_recompilations(
    each: Sequence[Compiled], run: Run, made: int = 0, ahead: Line | None = None
) -> Iterator[RunFinding]:
    """A function compiled again: for the same shapes placed differently, or again and again. `made` is how often it was
    given to `jax.jit` or `jax.pmap`, where that is three times or more, and `ahead` where it is compiled ahead of time.
    """
    for process in dict.fromkeys(one.process for one in each):
        mine = [one for one in each if one.process == process]
        cost = sum(one.size for one in mine[1:])
        if ahead is not None and (split := [text for one in pairwise(mine) for text in _arguments_split_later(*one)]):
            yield RunFinding(
                "recompiled", mine[0].function.name, ahead,
                "the first call compiles again: this compiles ahead of time for arguments that are not sharded",
                tuple(dict.fromkeys(split)), "pass jax.ShapeDtypeStruct(shape, dtype, sharding=...)",
                see=(("defined", mine[0].function.line),),
            )  # fmt: skip
            continue
        what = _arguments_placed_differently(mine, cost, run)
        if what:
            why = ": the arguments had the same shapes and other shardings"
            advice = "before the first call, place the arrays with the shardings that the function returns"
            if any(_UNNAMED in text for text in what):
                advice = "pass the same axis_name to each `jax.pmap`: a pmap without one shards over another axis"
            elif all(_AHEAD in text for text in what):
                advice = (
                    "before the first call, place the arrays as the later calls have them; to compile ahead of time, "
                    "pass jax.ShapeDtypeStruct(shape, dtype, sharding=...)"
                )
        elif (
            cost >= _COSTLY
            or _is_recompiled_in_loop(mine, made)
            or _is_recompiled_by_number(mine)
            or _is_recompiled_by_length(mine)
        ):
            why, advice = _explain_recompilation(mine, made)
            what = [text for before, after in pairwise(mine) for text in describe_changes(before, after)]
        else:
            continue
        if why:
            yield RunFinding(
                "recompiled",
                mine[0].function.name,
                mine[0].function.line,
                f"compiled {len(mine)} times ({cost:,} operations in extra compilations){why}",
                tuple(dict.fromkeys(what)),
                advice,
            )


def _arguments_split_later(before: Compiled, after: Compiled) -> list[str]:
    """The arguments that were on every device or nowhere for one compilation, and are sharded for the next."""
    if [(one.where, one.array) for one in before.arguments] != [(one.where, one.array) for one in after.arguments]:
        return []
    whole = (" not placed -> P(", " devices -> P(")
    return [text for text in describe_changes(before, after) if any(one in text for one in whole)]


def _is_recompiled_in_loop(mine: Sequence[Compiled], made: int) -> bool:
    """Return whether one line recompiled the same program repeatedly. A large program counts from the third time, if
    it was jitted anew.
    """
    calls = Counter((one.digest, one.function.call, one.size) for one in mine if one.function.call.file)
    return any(
        times >= (_AGAIN if size >= _SUBSTANTIAL and made >= times else _CHURN) for (_, _, size), times in calls.items()
    )


def _is_recompiled_by_number(mine: Sequence[Compiled]) -> bool:
    """Return whether one line recompiled a function to about as many operations on equal shapes. Then a number in them
    changes, such as that of a schedule which is a static argument. A flag or a count of layers changes more.
    """
    calls: dict[object, dict[str, int]] = defaultdict(dict)
    for one in mine:
        if one.function.own and one.function.call.file and one.size >= _SUBSTANTIAL:
            shapes = tuple((leaf.where, leaf.array, leaf.spec) for leaf in one.arguments)
            calls[one.function.call, shapes][one.digest] = one.size
    return any(
        sum(abs(size - other) * 50 <= size for other in sizes.values()) >= _CHURN
        for sizes in calls.values()
        for size in sizes.values()
    )


def _is_recompiled_by_length(mine: Sequence[Compiled]) -> bool:
    """Return whether one line recompiled a function because a dimension of its arguments, other than state or weights,
    changed each time. A few chosen sizes, such as multiples of 8, may be intended.
    """
    calls: dict[object, list[Compiled]] = defaultdict(list)
    for one in mine:
        if one.function.own and one.function.call.file and one.size >= _SUBSTANTIAL:
            calls[one.function.call, tuple(leaf.where for leaf in one.arguments)].append(one)
    for each in calls.values():
        sizes: set[int] = set()
        same = 0
        for leaves in zip(*(one.arguments for one in each), strict=True):
            shapes = {leaf.shape for leaf in leaves}
            same += len(shapes) == 1 and bool(leaves[0].shape)
            if len({len(shape) for shape in shapes}) == 1:
                sizes |= {size for dim in zip(*shapes, strict=True) if len(set(dim)) > _CHURN for size in dim}
        if same and math.gcd(*sizes) < _CHOSEN and len(sizes) > _CHURN:
            return True
    return False


def _arguments_placed_differently(mine: Sequence[Compiled], cost: int, run: Run) -> list[str]:
    """Return the arguments that were placed differently in two compilations for the same shapes, if that matters."""
    for before, after in pairwise(mine):
        shapes = [[(leaf.where, leaf.array) for leaf in one.arguments] for one in (before, after)]
        # Over another number of devices it is meant for another mesh.
        if before.device_count == 1 or before.device_count != after.device_count or shapes[0] != shapes[1]:
            continue
        moved = describe_changes(before, after)
        # Plain data parallelism: what is on every device after the first step was given from the host.
        whole = all(text.partition(" not placed -> ")[2].startswith("replicated on") for text in moved)
        if whole and not all("[] " in text for text in moved) and not _rest_is_placed(before, after, moved):
            continue
        large = {f"{leaf.where} {leaf.array}" for leaf in after.arguments if run.is_large(leaf, after)}
        # Nor where nothing at all was placed: then the function says where things go.
        largest = max((leaf.bytes_whole for leaf in before.arguments), default=0)
        arrays = [leaf for leaf in before.arguments if leaf.bytes_whole * 64 >= largest and leaf.shape]
        if arrays and all(leaf.where in before.unplaced for leaf in arrays) and cost < _COSTLY:
            continue
        # What was compiled ahead for arrays that lie nowhere does not fit those that come split.
        ahead = cost >= _WORTH and any(_AHEAD in text for text in moved)
        if moved and (ahead or cost >= _COSTLY or any(text.startswith(tuple(large)) for text in moved)):
            return moved
    return []


def _rest_is_placed(before: Compiled, after: Compiled, moved: Sequence[str]) -> bool:
    """Return whether most arguments and results of a function had been placed before, so that the rest was
    forgotten.
    """
    forgotten = {text.partition(" ")[0] for text in moved}
    state = [leaf for leaf in after.arguments if leaf.shape and is_state(leaf, after)]
    placed = [leaf for leaf in state if leaf.where not in forgotten and leaf.where not in before.unplaced]
    return 2 * sum(leaf.bytes_whole for leaf in placed) > sum(leaf.bytes_whole for leaf in state)


def _explain_recompilation(mine: Sequence[Compiled], made: int) -> tuple[str, str]:
    """Why a function was compiled again and again, and what to do; empty where it was not."""
    same = max(Counter(one.digest for one in mine).values())
    shapes = len({tuple(leaf.array for leaf in one.arguments) for one in mine})
    if same >= _AGAIN:
        mapped = mine[0].function.mapped
        if mapped and made < same:
            advice = "pass the same axis_name to each `jax.pmap`, and place arrays on it"
            return f", {same} times to the same program", advice
        maker = "jax.pmap" if mapped else "jax.jit"
        return (
            f", {same} times to the same program",
            f"call {maker} once, outside of the loop or function",
        )
    if shapes >= _CHURN:
        return f", for {shapes} different shapes", "pad the arrays to a few sizes"
    if len(mine) >= _CHURN and shapes == 1:
        return (
            " for the same shapes: a static argument or a closed-over value changes",
            "pass the changing value as an array",
        )
    return "", ""


def describe_changes(before: Compiled, after: Compiled) -> list[str]:
    """Return the differences between the arguments of two compilations: `x f32[64,8] -> f32[32,8]`."""
    was = {leaf.where: leaf for leaf in before.arguments}
    texts = []
    for leaf in after.arguments:
        old = was.pop(leaf.where, None)
        if old is None:
            texts.append(f"{leaf.where} {leaf.array} is new")
        elif old.array != leaf.array:
            texts.append(f"{leaf.where} {old.array} -> {leaf.array}")
        else:
            placed = [
                "not placed" if leaf.where in one.unplaced else each.spec
                for one, each in ((before, old), (after, leaf))
            ]
            if placed[0] != placed[1]:
                texts.append(f"{leaf.where} {leaf.array} {placed[0]} -> {placed[1]}")
    return [*texts, *(f"{leaf.where} {leaf.array} is gone" for leaf in was.values())]
